# The wheel is built in an image with a C compiler, so it has the compiled decoder.
FROM python:3.11-bookworm AS built
WORKDIR /src
COPY pyproject.toml setup.cfg setup.py README.md LICENSE ./
COPY plugins ./plugins
COPY producer ./producer
COPY consumer ./consumer
COPY tasks ./tasks
COPY ops ./ops
RUN pip wheel --no-deps --wheel-dir wheels .

FROM python:3.11-slim-bookworm

# Spark needs Java. tini is the first process: it reaps processes whose parent was killed, which
# would stay as zombies until the container ends.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY --from=built /src/wheels wheels
RUN --mount=type=cache,target=/root/.cache/pip pip install wheels/*.whl

# The jars of Spark's Kafka source are downloaded now, so that a container starts fast and without
# the internet.
ENV CDCBUS_CACHE=/var/cache/cdcbus
RUN cdcbus prepare

# Kubernetes recognises a user other than root only by its number, which ops/kubernetes/nodes.yaml
# names.
RUN useradd --create-home --uid 1000 cdcbus
USER cdcbus
WORKDIR /home/cdcbus
# -s: also where it is not the first one, as with docker run --init.
ENTRYPOINT ["tini", "-s", "--", "cdcbus"]
CMD ["--help"]
