package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	component    = "kubectl-mcm"
	eventTimeout = 10 * time.Second
)

// recorder writes each Event at once: a command may end right after. An Event that
// cannot be written is worth no failure; the record says the same.
type recorder struct {
	client client.Client
	clock  clock.PassiveClock
}

var _ record.EventRecorder = &recorder{}

// Event writes an Event about o.
func (r *recorder) Event(o runtime.Object, kind, reason, message string) {
	r.AnnotatedEventf(o, nil, kind, reason, "%s", message)
}

// Eventf does so with a format.
func (r *recorder) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	r.AnnotatedEventf(o, nil, kind, reason, format, args...)
}

// AnnotatedEventf does so with annotations of the Event.
func (r *recorder) AnnotatedEventf(o runtime.Object, annotations map[string]string, kind, reason, format string,
	args ...any,
) {
	about, ok := o.(client.Object)
	if !ok {
		return
	}
	gvk, err := apiutil.GVKForObject(o, r.client.Scheme())
	if err != nil {
		return
	}
	now := metav1.NewTime(r.clock.Now())
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: about.GetNamespace(), Name: fmt.Sprintf("%s.%x", about.GetName(), now.UnixNano()),
			Annotations: annotations,
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: about.GetNamespace(), Name: about.GetName(),
			UID: about.GetUID(),
		},
		Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...), Source: corev1.EventSource{Component: component},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	_ = r.client.Create(ctx, event)
}
