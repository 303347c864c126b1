package tracing

import (
	"context"
	"strings"
	"testing"
)

func TestWanted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env    map[string]string
		want   bool
		fails  string
		reason string
	}{
		"nothing":      {nil, false, "", "traces are off by default"},
		"endpoint":     {map[string]string{envEndpoint: "http://c:4318"}, true, "", "an endpoint is enough"},
		"own endpoint": {map[string]string{envTracesEndpoint: "http://c:4318/v1/traces"}, true, "", "so is one for traces"},
		"exporter":     {map[string]string{envExporter: "otlp"}, true, "", "the endpoint has a default"},
		"none":         {map[string]string{envExporter: "none", envEndpoint: "http://c:4318"}, false, "", "none wins"},
		"disabled":     {map[string]string{envDisabled: "True", envExporter: "otlp"}, false, "", "the switch of all wins"},
		"another":      {map[string]string{envExporter: "zipkin"}, false, envExporter, "there is only one exporter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Wanted(func(key string) string { return tc.env[key] })
			if got != tc.want || (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: wanted %v, error %v", tc.reason, got, err)
			}
		})
	}
}

// TestProtocols: both protocols that collectors receive have an exporter, which connects to nothing
// before it has something to export.
func TestProtocols(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", protocolHTTP, protocolGRPC, "http/json"} {
		e, err := NewExporter(t.Context(), func(key string) string {
			if key == envProtocol {
				return protocol
			}
			return ""
		})
		if known := protocol != "http/json"; known != (err == nil) {
			t.Errorf("%q: error %v", protocol, err)
		}
		if err == nil {
			if err := e.Shutdown(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	}
}
