package manager

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	all := NewOptions("test", "1").flags.FlagUsages()
	for name := range mcmFlags {
		if name != "v" && !strings.Contains(all, "--"+name) {
			t.Errorf("the usage does not tell about --%s", name)
		}
	}
	for _, name := range []string{"cloud-provider", "kube-api-content-type", "controller-start-interval"} {
		if _, usage, _ := strings.Cut(all, "--"+name); !strings.Contains(strings.SplitN(usage, "\n", 2)[0], "unused") {
			t.Errorf("the usage does not say that --%s is unused", name)
		}
	}
}

// TestAddFlags: a program may have flags of its own.
func TestAddFlags(t *testing.T) {
	t.Parallel()
	o, flags := NewOptions("test", "1"), pflag.NewFlagSet("test", pflag.ContinueOnError)
	token := flags.String("cloud_token", "", "")
	namespace := flags.String("namespace", "its own", "")
	o.AddFlags(flags)
	if err := flags.Parse([]string{"--cloud-token=secret", "--namespace=a", "--safety_up=7"}); err != nil {
		t.Fatal(err)
	}
	if *token != "secret" || *namespace != "a" || o.safety.up != 7 || o.clusters.namespace != "default" {
		t.Errorf("token %q, namespace %q, options %+v", *token, *namespace, o)
	}
	w := httptest.NewRecorder()
	configz(o.flags).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/configz", http.NoBody))
	if body := w.Body.String(); strings.Contains(body, "secret") || !strings.Contains(body, `"safety-up":"7"`) {
		t.Errorf("/configz serves %s, want the manager's flags and no others", body)
	}
}

// TestRunChecksOptions: nothing is touched while an option is not valid.
func TestRunChecksOptions(t *testing.T) {
	t.Parallel()
	o := NewOptions("test", "1")
	o.server.port = 0
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--port") {
		t.Errorf("Run with an invalid option: %v", err)
	}
}
