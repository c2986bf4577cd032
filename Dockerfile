# Dockerfile: the images. `contract`, of the seat: the static file, busybox, nothing else. `minimal`, `toolbox` and
# `full`, of the box: Debian with the static file, and more and more programs. Build one with
#   ./dev build --static && docker build --build-arg BINARY=prebuilt --target contract .
# or, from source alone and slower, without the build argument. docs/images.md has the rest, with what is in each.
#
# BASE and BUILD_BASE: Debian bookworm with a package source; pin them by digest in production. APT_MIRROR: another
# archive than the base's own. PACKAGES: "no" where BUILD_BASE has busybox-static (and, with BINARY=build,
# ./dev's packages) and no package source. http_proxy and the like are build arguments of every builder's.
ARG BASE=debian:bookworm-slim
ARG BUILD_BASE=debian:bookworm-slim
ARG BINARY=build

FROM ${BUILD_BASE} AS build
ARG APT_MIRROR=
WORKDIR /src
COPY . .
RUN sh deploy/image/mirror.sh "${APT_MIRROR}" && ./dev build --static

FROM scratch AS prebuilt
COPY build-static/sallyport /src/build-static/sallyport

FROM ${BINARY} AS binary

FROM ${BUILD_BASE} AS files
ARG PACKAGES=yes
ARG APT_MIRROR=
COPY deploy/image/rootfs.sh deploy/image/mirror.sh /
COPY --from=binary /src/build-static/sallyport /sallyport
RUN sh /mirror.sh "${APT_MIRROR}" && PACKAGES=${PACKAGES} sh /rootfs.sh /out /sallyport

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

# As root, who gives each identity a user id of its own; RUNBOX_API_KEY has to be set.
FROM ${BASE} AS minimal
COPY --from=binary /src/build-static/sallyport /usr/local/bin/sallyport
ENV RUNBOX_ROOT=/data RUNBOX_PORT=8080
USER 0:0
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=6s --start-period=2s \
    CMD /usr/local/bin/sallyport health "http${RUNBOX_TLS_CERT:+s}://127.0.0.1:${RUNBOX_PORT}"
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/sallyport"]
CMD ["box"]

FROM minimal AS toolbox
ARG APT_MIRROR=
COPY deploy/image/mirror.sh deploy/image/packages.sh deploy/image/toolbox.packages /tmp/
RUN sh /tmp/mirror.sh "${APT_MIRROR}" && sh /tmp/packages.sh /tmp/toolbox.packages && rm /tmp/*.sh /tmp/*.packages

FROM toolbox AS full
COPY deploy/image/packages.sh deploy/image/full.packages /tmp/
RUN sh /tmp/packages.sh /tmp/full.packages && rm /tmp/*.sh /tmp/*.packages
