package machineclass

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// Reasons of Events on MachineClasses and Secrets, besides the condition reasons.
const (
	EventSpecWarning   = "SpecWarning"
	EventDeletionWaits = "DeletionWaits"
)

// eventMax keeps messages within what the API server accepts.
const eventMax = 1000

// teller emits Events, each once for a version of an object: a class has no
// status that could say what has been told. After a restart it tells again.
type teller struct {
	events record.EventRecorder

	mu   sync.Mutex
	told map[types.NamespacedName]string
}

func newTeller(events record.EventRecorder) *teller {
	return &teller{events: events, told: map[types.NamespacedName]string{}}
}

// problems tells what is wrong with a class: one Event for what keeps machines
// from being made, one for what does not.
func (t *teller) problems(object *machinev1.MachineClass, resolved class.Resolved) {
	err := resolved.Err(cloud.BlocksCreate)
	if err == nil {
		_, err = resolved.UserData()
	}
	var warnings []cloud.Problem
	for _, p := range resolved.Problems {
		if p.Severity == cloud.Warning {
			warnings = append(warnings, p)
		}
	}
	var texts, reasons []string
	if blocking, ok := errors.AsType[*cloud.Error](err); ok {
		reasons = append(reasons, blocking.Reason)
		texts = append(texts, "Machines of this class cannot be created: "+join(blocking.Problems))
	}
	if len(warnings) > 0 {
		reasons = append(reasons, EventSpecWarning)
		texts = append(texts, join(warnings))
	}
	t.once(object, reasons, texts)
}

// deletionWaits tells what keeps a class that is to be deleted.
func (t *teller) deletionWaits(object client.Object, u users) {
	text := fmt.Sprintf("Deletion waits for Machine %s, which needs this class to remove its VM", u.first)
	if u.count > 1 {
		text = fmt.Sprintf("Deletion waits for %d Machines, which need this class to remove their VMs, e.g. %s", u.count,
			u.first)
	}
	t.onceFor(object, "deletion", []string{EventDeletionWaits}, []string{text})
}

// once emits the Events unless the last ones of this version had the same texts.
func (t *teller) once(object client.Object, reasons, texts []string) {
	t.onceFor(object, strings.Join(texts, "\n"), reasons, texts)
}

func (t *teller) onceFor(object client.Object, subject string, reasons, texts []string) {
	if !t.fresh(object, subject) {
		return
	}
	for i, text := range texts {
		if len(text) > eventMax {
			text = strings.ToValidUTF8(text[:eventMax], "") + "…"
		}
		t.events.Event(object, corev1.EventTypeWarning, reasons[i], text)
	}
}

// fresh notes the subject and reports whether it is another than the last one.
func (t *teller) fresh(object client.Object, subject string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	mark := fmt.Sprintf("%s/%d/%s", object.GetUID(), object.GetGeneration(), subject)
	if t.told[key] == mark {
		return false
	}
	t.told[key] = mark
	return true
}

// forget drops what was told about an object that is gone.
func (t *teller) forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, key)
}

func join(problems []cloud.Problem) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}
