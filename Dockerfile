# The manager on nothing but certificates: docker build -t cluster-api-provider-mcm .
ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY api api
COPY bootstrap bootstrap
COPY cloud cloud
COPY cmd cmd
COPY controllers controllers
COPY internal internal
COPY manager manager
COPY ops ops
ARG TARGETOS TARGETARCH VERSION=devel COMMIT=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/build-cache \
    GOCACHE=/go/build-cache CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" -o /out/cluster-api-provider-mcm ./cmd/manager \
 && ln -s cluster-api-provider-mcm /out/machine-controller-manager

FROM gcr.io/distroless/static:nonroot
# Gardener starts ./machine-controller-manager; the base's directory is that of its user.
WORKDIR /
COPY --from=build /out/ /
USER 65532:65532
EXPOSE 10258 10259
ENTRYPOINT ["/cluster-api-provider-mcm"]
