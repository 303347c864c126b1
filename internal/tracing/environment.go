package tracing

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The environment variables of OpenTelemetry's specification that are read here. The exporters
// and the SDK read the others.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// Protocols of OTLP.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// Wanted reports whether the environment asks for traces: it names an exporter, or an endpoint. It
// fails for an exporter that is not otlp. getenv is os.Getenv, or a test's.
func Wanted(getenv func(string) string) (bool, error) {
	if strings.EqualFold(strings.TrimSpace(getenv(envDisabled)), "true") {
		return false, nil
	}
	switch exporter := strings.TrimSpace(getenv(envExporter)); exporter {
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	case "":
		return cmp.Or(getenv(envTracesEndpoint), getenv(envEndpoint)) != "", nil
	default:
		return false, fmt.Errorf("%s is %q; set it to otlp or none", envExporter, exporter)
	}
}

// NewExporter returns the exporter that the environment asks for. It connects when it has
// something to export.
func NewExporter(ctx context.Context, getenv func(string) string) (sdktrace.SpanExporter, error) {
	protocol := cmp.Or(strings.TrimSpace(getenv(envTracesProtocol)), strings.TrimSpace(getenv(envProtocol)), protocolHTTP)
	switch protocol {
	case protocolGRPC:
		return otlptracegrpc.New(ctx)
	case protocolHTTP:
		return otlptracehttp.New(ctx)
	}
	return nil, fmt.Errorf("%s is %q; set it to %s or %s", envProtocol, protocol, protocolHTTP, protocolGRPC)
}
