# The server in a small image: one binary, no shell, no root.
#
#   docker build -t sundown .
#   docker run --rm -p 127.0.0.1:27017:27017 sundown

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY .cargo .cargo
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY src src
RUN cargo build --release --locked --bin sundown
RUN mkdir /tls

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/sundown /usr/local/bin/sundown
# A folder for --tls-dir. A volume that is mounted here belongs to the user who runs the server.
COPY --from=build --chown=nonroot:nonroot /tls /tls
# The default, loopback, cannot be reached from outside the container.
ENV SUNDOWN_BIND=0.0.0.0
EXPOSE 27017
USER nonroot
# The check reads SUNDOWN_PORT, but it does not see the server's arguments: set another port with the variable.
HEALTHCHECK --interval=5s --timeout=4s --start-period=1s --retries=3 CMD ["/usr/local/bin/sundown", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/sundown"]
