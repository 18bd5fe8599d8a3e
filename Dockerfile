# One image, one binary a process; the same layout that hack/image writes without Docker.
FROM rust:1.95.0-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --locked --release --bins -p ferrolb-controller -p ferrolb-speaker -p ferrolb-webhook -p ferrolb-operator \
 && mkdir /image \
 && for process in controller speaker webhook; do \
      cp target/x86_64-unknown-linux-gnu/release/ferrolb-$process /image/$process; \
    done \
 && cp target/x86_64-unknown-linux-gnu/release/ferrolb-operator /image/manager

FROM scratch
COPY --from=build /image/ /
USER 65534:65534
