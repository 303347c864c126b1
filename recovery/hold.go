package recovery

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/migration/objects"
)

// HoldPrefix begins the value of the annotation with which a recovery holds an object:
// [machinev1.MigrationHoldAnnotation] on the native API, cluster.x-k8s.io/paused on
// Cluster API. A run that was interrupted leaves it behind, and the next one goes on.
const HoldPrefix = "recovery-"

// HoldValue returns the value of the annotation for a set or deployment: the name of the run
// and the size that the object has.
func HoldValue(run string, o client.Object) string {
	return fmt.Sprintf("%s%s.%d", HoldPrefix, run, replicasOf(o))
}

// HoldKey returns the annotation that keeps the controllers of o from acting on it.
func HoldKey(o client.Object) string {
	if objects.IsNative(o) {
		return machinev1.MigrationHoldAnnotation
	}
	return clusterv1.PausedAnnotation
}

// Held reports whether a recovery holds o.
func Held(o client.Object) bool { return strings.HasPrefix(o.GetAnnotations()[HoldKey(o)], HoldPrefix) }

// HeldByOther reports whether somebody else holds o.
func HeldByOther(o client.Object) bool {
	_, held := o.GetAnnotations()[HoldKey(o)]
	return held && !Held(o)
}

// Answered reports whether the controllers of o have acknowledged that they leave it alone.
func Answered(o client.Object) bool {
	if objects.IsNative(o) {
		return machinev1.HoldAnswered(o)
	}
	_, asked := o.GetAnnotations()[clusterv1.PausedAnnotation]
	return asked && Paused(o)
}

// Paused reports whether an object of Cluster API has the condition Paused.
func Paused(o client.Object) bool {
	getter, ok := o.(conditions.Getter)
	if !ok {
		return false
	}
	c := meta.FindStatusCondition(getter.GetConditions(), clusterv1.PausedCondition)
	return c != nil && c.Status == metav1.ConditionTrue
}
