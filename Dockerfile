# The server as an image: docs/deployment.md.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
RUN python -m venv /opt/tapgnn
COPY constraints.txt ./
# torch for the CPU, from the index that torch's installation page names for it: that of PyPI may bring gigabytes of CUDA.
ARG TORCH_INDEX=
RUN /opt/tapgnn/bin/pip install --no-deps ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} "$(grep '^torch==' constraints.txt)"
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/tapgnn/bin/pip wheel --no-deps --wheel-dir wheels . \
    && /opt/tapgnn/bin/pip install --constraint constraints.txt "$(echo wheels/tapgnn-*.whl)[serve,postgres,kafka,otel]"

FROM python:${PYTHON}
RUN groupadd --gid 10001 tapgnn \
    && useradd --no-log-init --uid 10001 --gid tapgnn --home-dir /var/lib/tapgnn --shell /usr/sbin/nologin tapgnn \
    && install -d -o tapgnn -g tapgnn -m 0700 /var/lib/tapgnn
COPY --from=build /opt/tapgnn /opt/tapgnn
# Compiled loops depend on the CPU: they are kept with the data, and made when a server first starts on another CPU.
ENV PATH=/opt/tapgnn/bin:${PATH} PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/var/lib/tapgnn/compiled
USER 10001:10001
WORKDIR /var/lib/tapgnn
VOLUME /var/lib/tapgnn
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=3m --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["tapgnn"]
CMD ["serve", "/model", "--journal", "state.db", "--host", "0.0.0.0", "--tokens", "tokens.json"]
