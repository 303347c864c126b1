package class

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// Reasons of Events on MachineClasses and Secrets, besides the condition reasons.
const (
	eventSpecWarning   = "SpecWarning"
	eventDeletionWaits = "DeletionWaits"
)

// maxMessage is how many bytes of an Event's message the API server accepts.
const maxMessage = 1000

// A reporter emits Events, of the native API each once for a version of an object: a
// MachineClass has no status that could record what was reported. After a restart it
// reports everything again.
type reporter struct {
	events record.EventRecorder
	again  bool // everything is reported with each pass

	mu       sync.Mutex
	reported map[types.NamespacedName]string // the version and subject reported last
}

func newReporter(events record.EventRecorder, of api) *reporter {
	return &reporter{events: events, again: of.repeats, reported: map[types.NamespacedName]string{}}
}

// A warning is an Event to be emitted.
type warning struct{ reason, message string }

// problems reports what is wrong with a class: one Event for what keeps Machines
// from being created, one for what does not.
func (r *reporter) problems(object *machinev1.MachineClass, resolved class.Resolved) {
	err := resolved.Err(cloud.BlocksCreate)
	if err == nil {
		_, err = resolved.UserData()
	}
	var found []warning
	if blocking, ok := errors.AsType[*cloud.Error](err); ok {
		found = append(found, warning{
			blocking.Reason, "Machines of this class cannot be created: " + join(blocking.Problems),
		})
	}
	var minor []cloud.Problem
	for _, p := range resolved.Problems {
		if p.Severity == cloud.Warning {
			minor = append(minor, p)
		}
	}
	if len(minor) > 0 {
		found = append(found, warning{eventSpecWarning, join(minor)})
	}
	messages := make([]string, 0, len(found))
	for _, w := range found {
		messages = append(messages, w.message)
	}
	r.once(object, strings.Join(messages, "\n"), found...)
}

// deletionWaits reports which machines, of that kind, keep a class that is being deleted.
func (r *reporter) deletionWaits(object client.Object, kind string, found users) {
	message := fmt.Sprintf("Deletion waits for %s %s, which needs this class to remove its VM; delete it, or wait",
		kind, found.first)
	if found.count > 1 {
		message = fmt.Sprintf("Deletion waits for %d %ss, which need this class to remove their VMs, e.g. %s; "+
			"delete them, or wait", found.count, kind, found.first)
	}
	r.once(object, "deletion", warning{eventDeletionWaits, message})
}

// once emits the Events, unless the same subject was reported last about this
// version of the object and is not reported again.
func (r *reporter) once(object client.Object, subject string, warnings ...warning) {
	if !r.again && !r.isNew(object, subject) {
		return
	}
	for _, w := range warnings {
		if len(w.message) > maxMessage {
			w.message = strings.ToValidUTF8(w.message[:maxMessage], "") + "…"
		}
		r.events.Event(object, corev1.EventTypeWarning, w.reason, w.message)
	}
}

// isNew records the subject, and reports whether it differs from the last one.
func (r *reporter) isNew(object client.Object, subject string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	version := fmt.Sprintf("%s/%d/%s", object.GetUID(), object.GetGeneration(), subject)
	if r.reported[key] == version {
		return false
	}
	r.reported[key] = version
	return true
}

// unread ends a pass over an object that could not be read. Of one that is gone it drops
// what was reported.
func (r *reporter) unread(req reconcile.Request, err error) (reconcile.Result, error) {
	if client.IgnoreNotFound(err) != nil {
		return outcome.Of(0, fmt.Errorf("read %s: %w", req, err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reported, req.NamespacedName)
	return reconcile.Result{}, nil
}

func join(problems []cloud.Problem) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}
