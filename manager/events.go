package manager

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Limits of Events about one object. A machine set that makes a thousand
// machines tells about each; client-go's own limit is 25 and then one in five
// minutes.
const (
	eventBurst = 1000
	eventQPS   = 1
)

// newBroadcaster returns a broadcaster that writes core/v1 Events, the only kind
// that MCM's role allows and its tests look for, and that the log shows, too. Shutdown ends it.
func newBroadcaster(c kubernetes.Interface) record.EventBroadcaster {
	b := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventQPS})
	b.StartStructuredLogging(0)
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.CoreV1().Events("")})
	return b
}

// recorders returns recorders by the name of the component.
func recorders(b record.EventBroadcaster, scheme *runtime.Scheme) func(component string) record.EventRecorder {
	return func(component string) record.EventRecorder {
		return b.NewRecorder(scheme, corev1.EventSource{Component: component})
	}
}
