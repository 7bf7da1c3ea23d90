# The image of locklab, small and without root: docker build -t locklab .
# `kube render` names it with --image. Each part runs `sh /locklab/part.sh` in it, and with `--servers pod` starts redis-server itself.
FROM rust:1-slim-trixie AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p cli --no-default-features --features kube && strip target/release/locklab

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends redis-server redis-sentinel redis-tools ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home locklab \
    && mkdir /results && chown locklab /results
COPY --from=build /src/target/release/locklab /usr/local/bin/locklab
USER 10001:10001
WORKDIR /home/locklab
ENTRYPOINT ["locklab"]
