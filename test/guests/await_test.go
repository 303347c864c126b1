package guests

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// timeout bounds each step: the processor is emulated, and the machine may have much
// other work. GUEST_STEP_TIMEOUT is another bound; one that is no duration counts as none.
var timeout = func() time.Duration {
	set, _ := time.ParseDuration(os.Getenv("GUEST_STEP_TIMEOUT"))
	return cmp.Or(set, 25*time.Minute)
}()

// await watches the objects of a list until found returns true for an event, and ends
// the test if that takes too long. A watch begins with what is there.
func (r *rig) await(what string, list client.ObjectList, found func(watch.Event) bool, options ...client.ListOption) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	for ctx.Err() == nil {
		w, err := r.Watch(ctx, list, options...)
		r.must(err)
		done := match(w, found)
		w.Stop()
		if done {
			return
		}
	}
	r.Fatalf("%s: not within %s\n%s", what, timeout, r.describe())
}

// match reports whether an event was found before the watch ended.
func match(w watch.Interface, found func(watch.Event) bool) bool {
	for event := range w.ResultChan() {
		if event.Type != watch.Error && found(event) {
			return true
		}
	}
	return false
}

// eventually asks where there is nothing to watch: the cloud.
func (r *rig) eventually(what string, check func(context.Context) error) {
	r.Helper()
	if err := stack.Until(r.Context(), timeout, check); err != nil {
		r.Fatalf("%s: %v\n%s", what, err, r.describe())
	}
}

// describe says what each machine waits for, and what the guests have said.
func (r *rig) describe() string {
	ctx := context.WithoutCancel(r.Context())
	var machines machinev1.MachineList
	text := fmt.Sprintln(r.List(ctx, &machines))
	for i := range machines.Items {
		m := &machines.Items[i]
		text += fmt.Sprintf("%s: %s, %s; %s\n", m.Name, m.Status.CurrentStatus.Phase, m.Status.LastOperation.State,
			m.Status.LastOperation.Description)
	}
	servers, err := r.project.Live(ctx)
	text += fmt.Sprintln(err)
	for i := range servers {
		text += fmt.Sprintf("%s: %s\n%s\n", servers[i].Name, servers[i].Status, r.cloud.Console(servers[i].ID))
	}
	return text
}

// condition is the status of a condition of a Node.
func condition(node *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}
