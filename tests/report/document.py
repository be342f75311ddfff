"""A page taken apart by the standard parser, so that tests can ask what a browser would see."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "link", "br", "img", "input", "hr"}


@dataclass
class Element:
    """A tag, its attributes, its text and what stands inside."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    inside: list["Element"] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def all(self, tag: str = "") -> list["Element"]:
        """Every element below, in the order of the page; those with the tag if one is given."""
        found = []
        for child in self.inside:
            found += [child] * (not tag or child.tag == tag) + child.all(tag)
        return found

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


class Document(HTMLParser):
    """The root of a page; a tag that is closed out of turn is an error."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root")
        self.path = [self.root]
        self.feed(page)
        self.close()
        assert self.path == [self.root], f"left open: {[element.tag for element in self.path]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.path[-1].inside.append(element)
        if tag not in _VOID:
            self.path.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.path[-1].inside.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.path[-1].tag == tag, f"</{tag}> closes <{self.path[-1].tag}>"
        self.path.pop()

    def handle_data(self, data: str) -> None:
        for element in self.path:
            element.words.append(data)

    def all(self, tag: str = "") -> list[Element]:
        return self.root.all(tag)

    def find(self, name: str) -> Element | None:
        """The element with the id."""
        return next((element for element in self.all() if element.attributes.get("id") == name), None)
