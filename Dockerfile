# The image of locklab, small and without root: docker build -t locklab . && docker run --rm locklab quickstart
# It writes in /runs and /tmp alone, so that it works with --read-only and --network none too. To keep the runs, as yourself:
# mkdir -p runs && docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/runs:/runs" locklab quickstart
#
# `kube render` names it with --image. Each part runs `sh /locklab/part.sh` in it, and with `--servers pod` starts redis-server itself.
FROM rust:1-slim-trixie AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked -p cli --no-default-features --features kube,simulate,tls

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends redis-server redis-sentinel redis-tools valkey-server valkey-sentinel ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home locklab \
    && mkdir /results /runs && chown locklab /results /runs && chmod 1777 /runs
COPY --from=build /src/target/dist/locklab /usr/local/bin/locklab
# Where no volume is given, an anonymous one that `--rm` takes along; a root file system that is read-only stays so.
VOLUME ["/runs", "/tmp"]
ENV HOME=/tmp
USER 10001:10001
# Runs go to `runs` of the working directory.
WORKDIR /
ENTRYPOINT ["locklab"]
