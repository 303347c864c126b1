package tracing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

const ownersTrace = "1d5178fd7253b2315462706a9d419c11" // of owner ID "owner"

// TestLogHasTheTraceID: of a pass over a machine, whatever is logged in it, and nowhere else.
func TestLogHasTheTraceID(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.handler.OnAdd(machine(), false)
	var lines []string
	l := w.Tracer.Logger(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	pass := func(kind, name string) { // as controller-runtime makes the logger of a pass
		l.WithValues("controller", "x").WithValues(kind, klog.KRef("ns", name)).WithValues("namespace", "ns").
			WithName("part").WithCallDepth(1).Info("Created VM")
	}
	pass("Machine", "m")
	pass("MCMMachine", "m")
	pass("Machine", "other")
	w.handler.OnDelete(machine())
	pass("Machine", "m")
	for i, line := range lines {
		if has := strings.Contains(line, `"traceID"="`+ownersTrace+`"`); has != (i == 0) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines, want 4", len(lines))
	}
}

// events notes what is recorded.
type events []string

func (e *events) note(annotations map[string]string, rest ...string) {
	*e = append(*e, fmt.Sprint(annotations, " ", strings.Join(rest, " ")))
}

func (e *events) Event(_ runtime.Object, kind, reason, message string) {
	e.note(nil, kind, reason, message)
}

func (e *events) Eventf(_ runtime.Object, kind, reason, format string, args ...any) {
	e.note(nil, kind, reason, fmt.Sprintf(format, args...))
}

func (e *events) AnnotatedEventf(_ runtime.Object, annotations map[string]string, kind, reason, format string,
	args ...any,
) {
	e.note(annotations, kind, reason, fmt.Sprintf(format, args...))
}

// TestEventsHaveTheTraceID: those about machines of both APIs. Messages stay as they are, whatever is in
// them.
func TestEventsHaveTheTraceID(t *testing.T) {
	t.Parallel()
	got := &events{}
	r := Recorder(got)
	infra := &infrav1.MCMMachine{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{machinev1.OwnerIDAnnotation: "owner"},
	}}
	r.Event(machine(), corev1.EventTypeNormal, "A", "100%s")
	r.Eventf(infra, corev1.EventTypeNormal, "B", "%d", 7)
	r.AnnotatedEventf(infra, map[string]string{"x": "y"}, corev1.EventTypeNormal, "C", "%d", 8)
	r.Event(&machinev1.MachineSet{}, corev1.EventTypeNormal, "D", "set")
	trace := machinev1.TraceIDAnnotation + ":" + ownersTrace
	want := []string{
		"map[" + trace + "] Normal A 100%s", "map[" + trace + "] Normal B 7", "map[" + trace + " x:y] Normal C 8",
		"map[] Normal D set",
	}
	if strings.Join(*got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", *got, want)
	}
}
