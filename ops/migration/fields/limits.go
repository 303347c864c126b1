package fields

import (
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// timeouts are the timeouts of native machines that mean something on both APIs:
// what the machines say, else the flags of their manager.
type timeouts struct {
	drain, health, creation time.Duration

	conditions []string // that make a node unhealthy unless they are False
	neverFails bool
}

// timeoutsOf reads a configuration, nil is an empty one, and the annotation that
// overrides its creation timeout, as the native API does.
func timeoutsOf(c *machinev1.MachineConfiguration, annotations map[string]string, d migration.Defaults) timeouts {
	config, d := objects.Value(c), d.Complete()
	l := timeouts{
		drain:      duration(config.MachineDrainTimeout, d.DrainTimeout),
		health:     duration(config.MachineHealthTimeout, d.HealthTimeout),
		creation:   duration(config.MachineCreationTimeout, d.CreationTimeout),
		neverFails: objects.Value(config.DisableHealthTimeout),
	}
	list := d.NodeConditions
	if config.NodeConditions != nil {
		list = *config.NodeConditions
	}
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			l.conditions = append(l.conditions, item)
		}
	}
	if t, err := time.ParseDuration(annotations[machinev1.EffectiveCreationTimeoutAnnotation]); err == nil && t >= 0 {
		l.creation = t
	}
	return l
}

// duration returns d, else fallback if d is nil: 0 and less are no time at all.
func duration(d *metav1.Duration, fallback time.Duration) time.Duration {
	if d == nil {
		return fallback
	}
	return max(d.Duration, 0)
}

// seconds is d in whole seconds, rounded up: Cluster API takes 0 for never.
func seconds(d time.Duration) *int32 {
	n := int64(math.Ceil(d.Seconds()))
	n = min(max(n, 1), math.MaxInt32)
	return new(int32(n)) // #nosec G115 -- bounded above
}
