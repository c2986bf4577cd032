# language.Dockerfile: the static file copied into any other image: here of a language. Anyone's image will do that
# has a shell and /proc.
#   ./dev build --static && docker build -f deploy/image/language.Dockerfile --build-arg BASE=python:3.12-slim .
# Pin BASE by digest in production.
ARG BASE=python:3.12-slim
FROM ${BASE}
COPY build-static/sallyport /usr/local/bin/sallyport
RUN install -d -o 1000 -g 1000 /workspace
ENV SANDBOX_WORKSPACE=/workspace SANDBOX_PORT=8080
USER 1000:1000
WORKDIR /workspace
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=6s --start-period=2s CMD ["/usr/local/bin/sallyport", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/sallyport"]
CMD ["seat"]
