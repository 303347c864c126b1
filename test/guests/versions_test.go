package guests

import (
	"os"
	"regexp"
	"testing"
)

// TestVersions: kubelets are of the control plane's version. A skew that is allowed would
// be a test of its own.
func TestVersions(t *testing.T) {
	t.Parallel()
	kubernetes := regexp.MustCompile(`(?m)^(?:require|\s)\s*k8s\.io/kubernetes (v\S+)$`)
	var versions []string
	for _, file := range []string{"kubelet/go.mod", "../controlplane/go.mod"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := kubernetes.FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s does not require k8s.io/kubernetes", file)
		}
		versions = append(versions, string(found[1]))
	}
	if versions[0] != versions[1] {
		t.Errorf("kubelet is %s, and the control plane %s", versions[0], versions[1])
	}
}
