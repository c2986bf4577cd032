# Dockerfile: the image `contract`: the static file, busybox, nothing else. Build it with
#   ./dev build --static && docker build --build-arg BINARY=prebuilt --target contract .
# or, from source alone and slower, without the build argument. docs/images.md has the rest.
#
# BUILD_BASE: Debian bookworm with a package source; pin it by digest in production. PACKAGES: "no"
# where it has busybox-static (and, with BINARY=build, ./dev's packages) and no package source.
ARG BUILD_BASE=debian:bookworm-slim
ARG BINARY=build

FROM ${BUILD_BASE} AS build
WORKDIR /src
COPY . .
RUN ./dev build --static

FROM scratch AS prebuilt
COPY build-static/sallyport /src/build-static/sallyport

FROM ${BINARY} AS binary

FROM ${BUILD_BASE} AS files
ARG PACKAGES=yes
COPY deploy/image/rootfs.sh /rootfs.sh
COPY --from=binary /src/build-static/sallyport /sallyport
RUN PACKAGES=${PACKAGES} sh /rootfs.sh /out /sallyport

FROM scratch AS contract
COPY --from=files /out /
ENV PATH=/usr/local/bin:/bin SANDBOX_WORKSPACE=/workspace SANDBOX_PORT=8080
USER 1000:1000
WORKDIR /workspace
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=6s --start-period=2s CMD ["/usr/local/bin/sallyport", "health"]
# The daemon is a right first process: it reaps orphans and ends on SIGTERM. No tini.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/sallyport"]
CMD ["seat"]
