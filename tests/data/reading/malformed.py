"""Malformed files and the line that each must give, and files that only look malformed."""

import bz2
import gzip
import io
import json
import lzma
import random
import zipfile
from datetime import time as clock
from datetime import timedelta

import polars as pl

GOOD = "src,dst,time,label,f0\nann,bob,1,0,0.5\nbob,cat,2,1,1.5\ncat,ann,3,0,2.5\n"


def csv_with(row, place=2):
    """A good CSV with one row replaced; place 1 is the first line below the header."""
    lines = GOOD.splitlines()
    lines[place] = row
    return "\n".join(lines) + "\n"


def json_with(row):
    good = {"src": "ann", "dst": "bob", "time": 1}
    return json.dumps(good) + "\n" + (row if isinstance(row, str) else json.dumps(row)) + "\n" + json.dumps(good) + "\n"


def parquet(**columns):
    stream = io.BytesIO()
    pl.DataFrame({"src": [1, 2], "dst": [2, 3], "time": [1.0, 2.0]} | columns).write_parquet(stream)
    return stream.getvalue()


def zipped(text):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("log.csv", text)
    return stream.getvalue()


def damaged_texts(seed, count):
    """A good CSV of 20 events with a few bytes changed, inserted, deleted or cut off, again and again."""
    rng = random.Random(seed)
    rows = [f"n{rng.randrange(5)},{rng.randrange(5)},{time}.5,0,1.25\n" for time in range(20)]
    good = ("src,dst,time,label,f0\n" + "".join(rows)).encode()
    for _ in range(count):
        damaged = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(damaged))
            kind = rng.choice(["change", "insert", "delete", "cut"])
            if kind == "change":
                damaged[place] = rng.choice(b'\n\r,"; 0x\xff\0\t-e')
            elif kind == "insert":
                damaged.insert(place, rng.choice(b'\n\r,"; 0x\xff\0\t-e'))
            elif kind == "delete":
                del damaged[place]
            elif place > 30:
                del damaged[place:]
        yield bytes(damaged)


def possible_counts(damaged):
    """How many events a damaged text may hold: all lines but the header, which may itself be beyond recognition."""
    filled = sum(bool(line.strip()) for line in damaged.split(b"\n"))
    return (filled - 1, filled)


GZIP = gzip.compress(GOOD.encode() * 200)
PARQUET = parquet()
NOISE = random.Random(1).randbytes(3000)

# name of the case -> name of the file, what is in it, what the one line must say
BAD = {
    # the whole file
    "empty csv": ("log.csv", "", "is empty"),
    "empty tsv": ("log.tsv", "", "is empty"),
    "empty edges": ("log.edges", "", "is empty"),
    "empty snap": ("log.txt", "", "is empty"),
    "empty json lines": ("log.jsonl", "", "is empty"),
    "empty parquet": ("log.parquet", "", "not a Parquet file"),
    "empty gzip": ("log.csv.gz", gzip.compress(b""), "is empty"),
    "no bytes in gzip": ("log.csv.gz", "", "is not gzip"),
    "only newlines": ("log.csv", "\n\n\n", "is empty"),
    "only comments": ("log.edges", "% one\n# two\n", "is empty"),
    "only a byte order mark": ("log.csv", b"\xef\xbb\xbf", "is empty"),
    "only a header": ("log.csv", "src,dst,time\n", "contains no events"),
    "only a header, no newline": ("log.csv", "src,dst,time", "contains no events"),
    "only a JODIE header": (
        "log.csv",
        "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n",
        "contains no events",
    ),
    "parquet of no rows": (
        "log.parquet",
        parquet(
            src=pl.Series([], dtype=pl.Int64), dst=pl.Series([], dtype=pl.Int64), time=pl.Series([], dtype=pl.Int64)
        ),
        "contains no events",
    ),
    "random bytes": ("log.csv", NOISE, "log.csv"),
    "random bytes without NUL": ("log.csv", NOISE.replace(b"\0", b"x").replace(b"\r", b"x"), "is not UTF-8"),
    "random bytes as parquet": ("log.parquet", NOISE, "not a Parquet file"),
    "random bytes as gzip": ("log.csv.gz", NOISE, "is not gzip"),
    "random bytes as json": ("log.jsonl", NOISE, "log.jsonl"),
    "random bytes as edges": ("log.edges", NOISE, "log.edges"),
    "NUL bytes": ("log.csv", csv_with("bob,c\0t,2,1,1.5"), "line 3: there is a NUL byte"),
    "UTF-16 with mark": ("log.csv", GOOD.encode("utf-16"), "UTF-16"),
    "UTF-16 big end first": ("log.csv", b"\xfe\xff" + GOOD.encode("utf-16-be"), "UTF-16"),
    "UTF-16 without mark": ("log.csv", GOOD.encode("utf-16-le"), "line 1: there is a NUL byte"),
    "Latin-1": ("log.csv", csv_with("josé,cat,2,1,1.5").encode("latin-1"), "line 3: byte 0xe9 is not UTF-8"),
    "Latin-1 in json": ("log.jsonl", json_with('{"src":"josé"}').encode("latin-1"), "line 2: byte 0xe9"),
    "cut inside a character": ("log.csv", (GOOD + "jos\u00e9").encode()[:-1], "line 5: byte 0xc3 is not UTF-8"),
    "old Mac line ends": ("log.csv", GOOD.replace("\n", "\r"), "a carriage return without a newline"),
    "one old Mac line end": ("log.csv", csv_with("bob,cat,2,1,1\rcat,ann,3,0,2"), "line 3: there is a carriage return"),
    # containers
    "gzip cut short": ("log.csv.gz", GZIP[: len(GZIP) // 2], "truncated"),
    "gzip cut in its last bytes": ("log.csv.gz", GZIP[:-3], "truncated"),
    "gzip with a wrong checksum": ("log.csv.gz", GZIP[:-8] + b"abcd" + GZIP[-4:], "damaged"),
    "gzip with garbage behind": ("log.csv.gz", GZIP + b"garbage", "damaged"),
    "gzip with a damaged middle": ("log.csv.gz", GZIP[:40] + b"\xff\xff\xff" + GZIP[43:], "damaged"),
    "plain text called gz": ("log.csv.gz", GOOD, "is not gzip"),
    "cut gzip of json": ("log.jsonl.gz", gzip.compress(json_with({}).encode())[:-9], "truncated"),
    "zip called csv": ("log.csv", zipped(GOOD), "zip archive"),
    "bzip2 called csv": ("log.csv", bz2.compress(GOOD.encode()), "bzip2"),
    "xz called csv": ("log.csv", lzma.compress(GOOD.encode()), "xz"),
    "zstd called csv": ("log.csv", b"\x28\xb5\x2f\xfd" + NOISE, "zstd"),
    "parquet called csv": ("log.csv", PARQUET, "--format parquet"),
    "csv called parquet": ("log.parquet", GOOD, "not a Parquet file"),
    "csv called json": ("log.jsonl", GOOD, "line 1: it is not valid JSON"),
    "json called csv": ("log.csv", json_with({"src": 1}), "log.csv"),
    "no ending": ("log", GOOD, "pass --format"),
    "unknown ending": ("log.xlsx", GOOD, "pass --format"),
    "only gz as ending": ("log.gz", GZIP, "pass --format"),
    # columns
    "no time column": ("log.csv", "src,dst,amount\na,b,x\n", "no column has a usual name for time"),
    "no src column": ("log.csv", "a,dst,time\nx,y,1\n", "choose one with --src"),
    "no dst column": ("log.csv", "src,b,time\nx,y,1\n", "choose one with --dst"),
    "two names of src": ("log.csv", "src,from,dst,time\na,b,c,1\n", "'src' and 'from' could each be src"),
    "two names of time": ("log.csv", "src,dst,time,timestamp\na,b,1,2\n", "choose one with --time"),
    "two names of label": ("log.csv", "src,dst,time,label,y\na,b,1,0,1\n", "choose one with --label"),
    "one name twice": ("log.csv", "src,dst,time,f0,f0\na,b,1,2,3\n", "2 columns are named 'f0'"),
    "one column": ("log.csv", "src\na\nb\n", "no column has a usual name for dst"),
    "two columns, no header": ("log.csv", "1,2\n3,4\n", "has 2 columns and no header"),
    "edges without time": ("log.edges", "1 2\n2 3\n", "expected src dst [weight] time"),
    "edges with five columns": ("log.edges", "1 2 3 4 5\n", "has 5 columns"),
    "wrong separator": ("log.tsv", GOOD, "no column has a usual name for src"),
    "json without time": ("log.jsonl", '{"src": 1, "dst": 2}\n', "choose one with --time"),
    "json with two names of src": ("log.jsonl", '{"src": 1, "from": 1, "dst": 2, "time": 3}\n', "could each be src"),
    "parquet without dst": ("log.parquet", parquet().replace(b"dst", b"dxt"), "log.parquet"),
    "parquet with two names of dst": ("log.parquet", parquet(to=[1, 2]), "could each be dst"),
    # rows
    "a field too few": ("log.csv", csv_with("bob,cat,2,1"), "line 3: it has 4 fields, expected 5"),
    "a field too many": ("log.csv", csv_with("bob,cat,2,1,1.5,9"), "line 3: it has 6 fields, expected 5"),
    "a comma at the end": ("log.csv", csv_with("bob,cat,2,1,1.5,"), "line 3: it has 6 fields"),
    "the last row cut off": ("log.csv", GOOD[:-7], "line 4: it has"),
    "every row wider than the header": ("log.csv", "src,dst,time\na,b,1,9\nb,c,2,9\n", "line 2: it has 4 fields"),
    "a comment in csv": ("log.csv", csv_with("# a remark"), "line 3: it has 1 fields"),
    "two rows in one line": ("log.csv", csv_with("bob,cat,2,1,1.5 cat,ann,3,0,2.5"), "line 3: it has 9 fields"),
    "a quote that never ends": ("log.csv", csv_with('bob,"cat,2,1,1.5'), "line 3: a quote is never closed"),
    "a quote that ends early": ("log.csv", csv_with('bob,"c"at,2,1,1.5'), "line 3: its quoting is malformed"),
    "an id over two lines": ("log.csv", csv_with('bob,"cat\nann",2,1,1.5'), "line 3: dst 'cat\\nann' is not"),
    "quotes that swallow a row": ("log.csv", csv_with('bob,"cat,2\ncat,ann",3,0,2.5'), "line 3: dst"),
    "an edge without time": ("log.edges", "1 2 3\n2 3\n", "line 2: it has 2 fields"),
    "an edge with a word too many": ("log.txt", "1 2 3\n2 3 4 5\n", "line 2: it has 4 fields"),
    "an edge with commas missing": ("log.edges", "1,2,3\n2,34\n", "line 2: it has 2 fields"),
    "JODIE rows of two widths": (
        "log.csv",
        "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,0,0,1,2\n0,0,1,0,1\n",
        "line 3: it has 5 fields, expected 6",
    ),
    # values in text
    "src empty": ("log.csv", csv_with(",cat,2,1,1.5"), "line 3: src is empty"),
    "dst blank": ("log.csv", csv_with("bob,  ,2,1,1.5"), "line 3: dst is empty"),
    "user empty in JODIE": ("log.txt", ",0,0,0,1\n", "log.txt"),
    "time empty": ("log.csv", csv_with("bob,cat,,1,1.5"), "line 3: time is empty"),
    "time a word": ("log.csv", csv_with("bob,cat,soon,1,1.5"), "line 3: time 'soon' is not a number or an ISO date"),
    "time in words": ("log.csv", csv_with("bob,cat,2 May 2024,1,1.5"), "line 3: time '2 May 2024' is not"),
    "time with a decimal comma": ("log.csv", csv_with('bob,cat,"2,5",1,1.5'), "line 3: time '2,5' is not"),
    "time not a number": ("log.csv", csv_with("bob,cat,NaN,1,1.5"), "line 3: time 'NaN' is not finite"),
    "time infinite": ("log.csv", csv_with("bob,cat,-inf,1,1.5"), "line 3: time '-inf' is not finite"),
    "time beyond float64": ("log.csv", csv_with("bob,cat,1e400,1,1.5"), "line 3: time '1e400' is not finite"),
    "time in nanoseconds": ("log.csv", csv_with("bob,cat,1700000000000000001,1,1.5"), "below 2^53"),
    "time of month 13": ("log.csv", csv_with("bob,cat,2024-13-01,1,1.5"), "line 3: time '2024-13-01' is not"),
    "time of 30 February": ("log.csv", csv_with("bob,cat,2024-02-30,1,1.5"), "line 3: time '2024-02-30' is not"),
    "time of hour 25": ("log.csv", csv_with("bob,cat,2024-02-03T25:00:00,1,1.5"), "line 3: time"),
    "time in other digits": ("log.csv", csv_with("bob,cat,١٢,1,1.5"), "is not a number or an ISO date"),
    "time with underscores": ("log.csv", csv_with("bob,cat,1_000,1,1.5"), "is not a number or an ISO date"),
    "time of a week": ("log.csv", csv_with("bob,cat,2024-W05-1,1,1.5"), "is not a number or an ISO date"),
    "a very long name twice": ("log.csv", "src,dst,time," + ",".join(["n" * 5000] * 2) + "\n1,2,3,4,5\n", "are named"),
    "label a word": ("log.csv", csv_with("bob,cat,2,maybe,1.5"), "line 3: label 'maybe' is not an integer"),
    "label of two words": ("log.csv", "src,dst,time,label\na,b,1,ham\nb,c,2,spam\n", "neither says which is 1"),
    "label of three words": (
        "log.csv",
        "src,dst,time,label\na,b,1,ham\nb,c,2,spam\nb,c,2,fraud\n",
        "label 'ham' is not",
    ),
    "label a fraction": ("log.csv", csv_with("bob,cat,2,0.5,1.5"), "line 3: label '0.5' is not an integer"),
    "feature a word": (
        "log.csv",
        csv_with("bob,cat,2,1,much"),
        "line 3: f0 'much' is not a finite number; fix the row or pass --skip-bad-rows, --categorical f0 or --drop f0",
    ),
    "feature infinite": ("log.csv", csv_with("bob,cat,2,1,inf"), "line 3: f0 'inf'"),
    "feature beyond float64": ("log.csv", csv_with("bob,cat,2,1,1e400"), "line 3: f0 '1e400'"),
    "feature in other digits": ("log.csv", csv_with("bob,cat,2,1,١٢"), "line 3: f0"),
    "json feature a list": ("log.jsonl", json_with({"src": 1, "dst": 2, "time": 3, "label": [1]}), "line 2: label [1]"),
    "a very long bad value": ("log.csv", csv_with("bob,cat," + "x" * 10_000 + ",1,1.5"), "line 3: time 'xxx"),
    "the header again further down": ("log.csv", csv_with("src,dst,time,label,f0"), "line 3: time 'time' is not"),
    "time a word in edges": ("log.edges", "1 2 3\n1 2 x\n", "line 2: time 'x' is not"),
    # JSON
    "json cut off": ("log.jsonl", json_with('{"src": 1, "dst": 2, "ti'), "line 2: it is not valid JSON"),
    "json with two objects in a line": ("log.jsonl", json_with('{"src":1}{"src":2}'), "line 2: it is not valid JSON"),
    "json in Python's spelling": ("log.jsonl", json_with("{'src': 1}"), "line 2: it is not valid JSON"),
    "json list": ("log.jsonl", '[{"src": 1, "dst": 2, "time": 3}]', "a JSON list"),
    "json over several lines": (
        "log.jsonl",
        json.dumps({"src": 1, "dst": 2, "time": 3}, indent=1),
        "line 1: it is not",
    ),
    "json rows as lists": ("log.jsonl", json_with("[1, 2, 3]"), "line 2: it is not a JSON object"),
    "json number": ("log.jsonl", json_with("5"), "line 2: it is not a JSON object"),
    "json null": ("log.jsonl", json_with("null"), "line 2: it is not a JSON object"),
    "json without a key": ("log.jsonl", json_with({"src": 1, "dst": 2}), "line 2: time is empty"),
    "json with a key twice": (
        "log.jsonl",
        json_with('{"src":1,"src":2,"dst":2,"time":3}'),
        "line 2: it has a duplicate key",
    ),
    "json id null": ("log.jsonl", json_with({"src": None, "dst": 2, "time": 3}), "line 2: src is empty"),
    "json id empty": ("log.jsonl", json_with({"src": "", "dst": 2, "time": 3}), "line 2: src is empty"),
    "json id a fraction": ("log.jsonl", json_with({"src": 1.5, "dst": 2, "time": 3}), "line 2: src 1.5 is not"),
    "json id a truth value": ("log.jsonl", json_with({"src": True, "dst": 2, "time": 3}), "line 2: src True is not"),
    "json id a list": ("log.jsonl", json_with({"src": [1], "dst": 2, "time": 3}), "line 2: src [1] is not"),
    "json id too large": (
        "log.jsonl",
        json_with({"src": 2**63, "dst": 2, "time": 3}),
        "line 2: src 9223372036854775808",
    ),
    "json id half a character": ("log.jsonl", json_with('{"src":"\\ud800","dst":2,"time":3}'), "line 2: src"),
    "json time half a character": ("log.jsonl", json_with('{"src":1,"dst":2,"time":"\\ud800"}'), "line 2: time"),
    "json time NaN": ("log.jsonl", json_with('{"src":1,"dst":2,"time":NaN}'), "line 2: time nan is not finite"),
    "json time a list": ("log.jsonl", json_with({"src": 1, "dst": 2, "time": [3]}), "line 2: time [3] is not"),
    "json time true": ("log.jsonl", json_with({"src": 1, "dst": 2, "time": True}), "line 2: time True is not"),
    "json nested without end": ("log.jsonl", json_with("[" * 100_000), "line 2: it is not valid JSON"),
    "json number of 5000 digits": (
        "log.jsonl",
        json_with('{"src":' + "9" * 5000 + "}"),
        "line 2: it is not valid JSON",
    ),
    # Parquet
    "parquet cut short": ("log.parquet", PARQUET[: len(PARQUET) // 2], "not a Parquet file"),
    "parquet without its end": ("log.parquet", PARQUET[:-4], "not a Parquet file"),
    "parquet without its start": ("log.parquet", PARQUET[200:], "not a Parquet file"),
    "parquet id null": ("log.parquet", parquet(src=[1, None]), "row 2: src is empty"),
    "parquet id empty": ("log.parquet", parquet(src=["a", ""]), "row 2: src is empty"),
    "parquet id too large": ("log.parquet", parquet(src=pl.Series([1, 2**63], dtype=pl.UInt64)), "row 2: src"),
    "parquet id a fraction": ("log.parquet", parquet(src=[1.0, 2.0]), "'src' has type Float64"),
    "parquet id a list": ("log.parquet", parquet(src=[[1], [2]]), "'src' has type List"),
    "parquet id bytes": ("log.parquet", parquet(src=[b"a", b"b"]), "'src' has type Binary"),
    "parquet ids all missing": ("log.parquet", parquet(src=[None, None]), "'src' has type Null"),
    "parquet time null": ("log.parquet", parquet(time=[1.0, None]), "row 2: time is empty"),
    "parquet time NaN": ("log.parquet", parquet(time=[1.0, float("nan")]), "row 2: time nan is not finite"),
    "parquet time in nanoseconds": ("log.parquet", parquet(time=[1, 1_700_000_000_000_000_001]), "below 2^53"),
    "parquet time of day": ("log.parquet", parquet(time=[clock(1), clock(2)]), "'time' has type Time"),
    "parquet time a span": ("log.parquet", parquet(time=[timedelta(1)] * 2), "'time' has type Duration"),
    "parquet time a word": ("log.parquet", parquet(time=["1", "soon"]), "row 2: time 'soon' is not a number"),
    "parquet label a date": ("log.parquet", parquet(label=[clock(1), clock(2)]), "'label' has type Time"),
    "parquet label a fraction": ("log.parquet", parquet(label=[0.0, 0.5]), "row 2: label 0.5"),
    "parquet feature infinite": ("log.parquet", parquet(f0=[1.0, float("inf")]), "row 2: f0 inf is not"),
    "empty arrow": ("log.arrow", "", "not an Arrow file"),
    "csv called arrow": ("log.feather", GOOD, "not an Arrow file"),
}

# what looks wrong and is not: name of the file, what is in it, number of events
LEGAL = {
    "no newline at the end": ("log.csv", GOOD.rstrip("\n"), 3),
    "Windows line ends": ("log.csv", GOOD.replace("\n", "\r\n"), 3),
    "mixed line ends": ("log.csv", GOOD.replace("\n", "\r\n", 2), 3),
    "byte order mark": ("log.csv", GOOD.encode("utf-8-sig"), 3),
    "capital header": ("log.csv", GOOD.upper().replace("F0", "f0"), 3),
    "unsorted": ("log.csv", "src,dst,time\na,b,3\nb,c,1\n", 2),
    "duplicates and self-loops": ("log.csv", "src,dst,time\na,a,1\na,a,1\n", 2),
    "negative time": ("log.csv", "src,dst,time\na,b,-5\n", 1),
    "ids in every script": ("log.csv", "src,dst,time\nюля,李,1\n😀,josé,2\n", 2),
    "ids with a quote inside": ("log.csv", 'src,dst,time\n"a ""b"" c",d,1\n', 1),
    "an unnamed column": ("log.csv", ",u,i,ts\n0,1,2,3\n1,1,2,4\n", 2),
    "an ignored column with anything in it": ("log.csv", "src,dst,time,memo\na,b,1,\nb,c,2,nan\n", 2),
    "gzip without the ending": ("log.csv", gzip.compress(GOOD.encode()), 3),
    "two gzip members": ("log.csv.gz", gzip.compress(GOOD.encode()) + gzip.compress(b"a,b,9,0,1\n"), 4),
    "json with more keys": ("log.jsonl", json_with({"src": 1, "dst": 2, "time": 3, "more": {"a": [1]}}), 3),
    "json with blank lines": ("log.jsonl", "\n" + json_with({"src": 1, "dst": 2, "time": 3}) + "\n\n", 3),
    "label empty": ("log.csv", csv_with("bob,cat,2,,1.5"), 3),
    "label not a number": ("log.csv", csv_with("bob,cat,2,nan,1.5"), 3),
    "label of two words": ("log.csv", "src,dst,time,label\na,b,1,Fraud\nb,c,2,approved\n", 2),
    "feature empty": ("log.csv", csv_with("bob,cat,2,1,"), 3),
    "feature not a number": ("log.csv", csv_with("bob,cat,2,1,nan"), 3),
    "feature beyond float32": ("log.csv", csv_with("bob,cat,2,1,1e39"), 3),
    "parquet feature null": ("log.parquet", parquet(f0=[1.0, None]), 2),
    "parquet feature a list": ("log.parquet", parquet(features=[[1.0], [2.0]]), 2),
    "blanks at the ends of edges": ("log.edges", "  1 2 3  \n\t4\t5  6\n", 2),
}
