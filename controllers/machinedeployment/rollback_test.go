package machinedeployment

import (
	"testing"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestRollback(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason   string
		revision int64
		want     string
		event    string
	}{
		"Last":      {"0 is the one before.", 0, "v2", machinev1.EventDeploymentRollback},
		"Named":     {"A revision that was named.", 1, "v1", machinev1.EventDeploymentRollback},
		"Unchanged": {"The present one.", 3, "v3", machinev1.EventRollbackTemplateUnchanged},
		"Unknown":   {"One that never was.", 9, "v3", machinev1.EventRollbackRevisionNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, deployment(1, func(d *machinev1.MachineDeployment) { machinev1.SetAnnotation(d, "mine", "v1") }))
			env.run()
			for _, next := range []string{"v2", "v3"} {
				env.changeSpec(func(d *machinev1.MachineDeployment) { class(next)(d); machinev1.SetAnnotation(d, "mine", next) })
				env.run()
			}
			env.HeardOf("")
			env.changeSpec(func(d *machinev1.MachineDeployment) {
				d.Spec.RollbackTo = &machinev1.RollbackConfig{Revision: tc.revision}
				machinev1.SetAnnotation(d, machinev1.LastReplicaChangeByScalerAnnotation, noon.Format(time.RFC3339))
			})
			env.pass()
			d := env.deployment()
			if d.Spec.RollbackTo != nil || d.Spec.Template.Spec.Class.Name != tc.want || d.Annotations["mine"] != tc.want {
				t.Errorf("%s\nspec %+v annotations %v", tc.reason, d.Spec, d.Annotations)
			}
			if _, hashed := d.Spec.Template.Labels[machinev1.TemplateHashLabel]; hashed {
				t.Errorf("the hash went into the deployment's template")
			}
			if d.Annotations[machinev1.LastReplicaChangeByScalerAnnotation] == "" {
				t.Errorf("the time of the last scaling is no part of a revision")
			}
			if events := env.HeardOf(tc.event + " "); len(events) != 1 {
				t.Errorf("%s: events %v", tc.event, events)
			}
			env.run()
			if got := env.live()[0].Spec.Class.Name; got != tc.want {
				t.Errorf("%s\nthe machine has class %s", tc.reason, got)
			}
		})
	}
}
