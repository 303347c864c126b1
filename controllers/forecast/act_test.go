package forecast_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/forecast"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// seeds is how many random pools are changed; their seeds are 0 and following.
const seeds = 100

// TestPlanIsWhatHappens changes random pools, and compares the forecast with what the real controllers
// of MachineDeployments and MachineSets do then.
func TestPlanIsWhatHappens(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	for seed := range uint64(seeds) {
		if testing.Short() && seed%10 > 0 {
			continue
		}
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := newPlayer(t, randomPool(r))
			p.run()
			for range r.IntN(3) { // a history, so that a change may lead back to an earlier template
				p.change(func(d *machinev1.MachineDeployment) { changeTemplate(r, d) })
				p.run()
			}
			var told []string
			changed := p.deployment()
			for range 1 + r.IntN(3) {
				told = append(told, randomChange(r, changed))
			}
			want, err := forecast.OfDeployment(changed, p.observed(), p.Clock.Now())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			before := p.observed()
			p.change(func(d *machinev1.MachineDeployment) { d.Spec, d.Annotations = changed.Spec, changed.Annotations })
			p.run()
			got := p.outcome(before)
			kinds[kindOf(&got)]++
			ignored := cmpopts.IgnoreFields(forecast.Outcome{}, "Surge", "Unavailable", "Most", "Least", "Rounds", "Waits")
			if diff := cmp.Diff(want, got, ignored, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("seed %d: %s, strategy %s\nthe forecast (-) is not what happens (+):\n%s\n%s", seed, told,
					changed.Spec.Strategy.Type, diff, p.describe())
			}
			if got.Most != want.Most || got.Least < want.Least {
				t.Errorf("seed %d: %s: %d to %d machines, the forecast says %d to %d", seed, told, got.Least, got.Most,
					want.Least, want.Most)
			}
		})
	}
	t.Logf("seeds 0 to %d: %v", seeds-1, kinds)
	for _, kind := range []string{"replaces", "scales", "updates in place", "syncs", "nothing"} {
		if kinds[kind] == 0 && !testing.Short() {
			t.Errorf("no seed had a change that %s: the comparison says nothing about those", kind)
		}
	}
}

func kindOf(o *forecast.Outcome) string {
	switch {
	case len(o.Updated) > 0:
		return "updates in place"
	case o.Replaced() > 0:
		return "replaces"
	case o.Created > 0 || len(o.Deleted) > 0:
		return "scales"
	case len(o.Synced) > 0:
		return "syncs"
	}
	return "nothing"
}

// randomPool is a pool with any strategy.
func randomPool(r *rand.Rand) *machinev1.MachineDeployment {
	d := fixture.MachineDeployment("pool", "v0", r.Int32N(6))
	changeStrategy(r, d)
	return d
}

func changeStrategy(r *rand.Rand, d *machinev1.MachineDeployment) {
	value := func() *intstr.IntOrString {
		if r.IntN(3) == 0 {
			return new(intstr.FromString(fmt.Sprintf("%d%%", 10*r.IntN(7))))
		}
		return new(intstr.FromInt32(r.Int32N(4)))
	}
	bounds := machinev1.UpdateConfiguration{MaxSurge: value(), MaxUnavailable: value()}
	d.Spec.Strategy = machinev1.MachineDeploymentStrategy{}
	switch s := &d.Spec.Strategy; r.IntN(5) {
	case 0:
		s.Type = machinev1.RecreateStrategyType
	case 1, 2:
		s.Type = machinev1.InPlaceUpdateStrategyType
		s.InPlaceUpdate = &machinev1.InPlaceUpdateMachineDeployment{
			UpdateConfiguration: bounds, OrchestrationType: machinev1.OrchestrationTypeAuto,
		}
	default:
		s.Type = machinev1.RollingUpdateStrategyType
		s.RollingUpdate = &machinev1.RollingUpdateMachineDeployment{UpdateConfiguration: bounds}
	}
}

func changeTemplate(r *rand.Rand, d *machinev1.MachineDeployment) {
	d.Spec.Template.Spec.Class.Name = fmt.Sprintf("v%d", r.IntN(3))
}

// changes are what a person may do to a pool.
var changes = map[string]func(*rand.Rand, *machinev1.MachineDeployment){
	"class":    changeTemplate,
	"replicas": func(r *rand.Rand, d *machinev1.MachineDeployment) { d.Spec.Replicas = r.Int32N(8) },
	"strategy": changeStrategy,
	"label of the template": func(_ *rand.Rand, d *machinev1.MachineDeployment) {
		d.Spec.Template.Labels = map[string]string{"team": "a"}
		maps.Copy(d.Spec.Template.Labels, d.Spec.Selector.MatchLabels)
	},
	"node template": func(r *rand.Rand, d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"n": fmt.Sprint(r.IntN(2))}
	},
	"timeouts": func(r *rand.Rand, d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
			MachineDrainTimeout: &metav1.Duration{Duration: time.Duration(r.IntN(2)) * time.Hour},
		}
	},
	"kind of the class": func(_ *rand.Rand, d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.Class.Kind = "OtherClass"
	},
	"paused":          func(_ *rand.Rand, d *machinev1.MachineDeployment) { d.Spec.Paused = true },
	"minReadySeconds": func(_ *rand.Rand, d *machinev1.MachineDeployment) { d.Spec.MinReadySeconds = 7 },
	"annotation": func(_ *rand.Rand, d *machinev1.MachineDeployment) {
		machinev1.SetAnnotation(d, "team", "a")
	},
	"rollback": func(_ *rand.Rand, d *machinev1.MachineDeployment) {
		d.Spec.RollbackTo = &machinev1.RollbackConfig{}
	},
}

func randomChange(r *rand.Rand, d *machinev1.MachineDeployment) string {
	names := slices.Sorted(maps.Keys(changes))
	name := names[r.IntN(len(names))]
	if r.IntN(3) == 0 {
		name = "class" // what matters most
	}
	changes[name](r, d)
	return name
}

// nodeCondition is what the controller of a Machine reports while it updates a node in place.
func nodeCondition(reason string) []corev1.NodeCondition {
	return []corev1.NodeCondition{{Type: machinev1.NodeInPlaceUpdate, Status: corev1.ConditionTrue, Reason: reason}}
}
