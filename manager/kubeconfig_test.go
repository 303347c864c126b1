package manager

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestEachWarningIsLoggedOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Add("Warning", `299 - "unknown field \"status.progress\""`)
		_, _ = w.Write([]byte(`{"kind":"NamespaceList","apiVersion":"v1"}`))
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := strings.ReplaceAll(`{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"a"}}],
		"clusters":[{"name":"a","cluster":{"server":"URL"}}]}`, "URL", server.URL)
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := (&clusterOptions{}).read("control-kubeconfig", path, "test/1")
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	for range 3 {
		if _, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "status.progress") {
		t.Errorf("the same warning with 3 answers made %q of the log, want one line", lines)
	}
}
