package patch

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestDropped(t *testing.T) {
	t.Parallel()
	lines := 0
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, _ string) { lines++ }, funcr.Options{}))
	var d Dropped[int]
	if d.Known() || d.Get("a") != 0 {
		t.Error("the zero Dropped must know nothing")
	}
	for range 3 {
		d.Learn(ctx, "Machine", "status.progress")
	}
	if !d.Known() || lines != 1 {
		t.Errorf("known is %t after %d lines in the log, want one line", d.Known(), lines)
	}
	d.Keep("a", 1)
	d.Keep("b", 2)
	d.Forget("b")
	if d.Get("a") != 1 || d.Get("b") != 0 || !d.Known() {
		t.Error("forgetting an object must forget neither the others nor what the API server drops")
	}
}
