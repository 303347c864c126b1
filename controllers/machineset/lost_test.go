package machineset

import (
	"strings"
	"testing"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/carried"
)

// TestNothingThatASetLosesMakesTooManyMachines takes each annotation that docs/annotations.md lists,
// the finalizers and the status away from a MachineSet, alone and all together, in each state of its life.
func TestNothingThatASetLosesMakesTooManyMachines(t *testing.T) {
	t.Parallel()
	strips := map[string]func(*machinev1.MachineSet){
		"annotations": func(s *machinev1.MachineSet) { s.Annotations = nil },
		"status":      func(s *machinev1.MachineSet) { s.Status = machinev1.MachineSetStatus{} },
		"finalizers":  func(s *machinev1.MachineSet) { s.Finalizers = nil },
		"everything": func(s *machinev1.MachineSet) {
			s.Annotations, s.Finalizers, s.Status = nil, nil, machinev1.MachineSetStatus{}
		},
	}
	for _, name := range carried.Names(t, "MachineSet") {
		strips[name] = func(s *machinev1.MachineSet) { delete(s.Annotations, name) }
	}
	states := map[string]func(*env){
		"New":     func(*env) {},
		"Created": func(env *env) { env.settle() },
		"Shrunk": func(env *env) {
			env.settle()
			env.scale(1)
			env.settle()
		},
		"Growing": func(env *env) { // and one name has been used and is free again
			env.settle()
			env.vanish(env.alive()[0])
		},
	}
	for state, reach := range states {
		for what, strip := range strips {
			for _, restarts := range []bool{false, true} {
				t.Run(state+"/"+strings.TrimPrefix(what, machinev1.OurPrefix), func(t *testing.T) {
					t.Parallel()
					env := newEnv(t, newSet(3))
					reach(env)
					before := map[string]bool{}
					for _, name := range env.alive() {
						before[name] = true
					}
					env.edit(strip)
					if restarts {
						env.restart()
					}
					env.scale(5)
					env.settle()
					left := 0
					for _, name := range env.alive() {
						if before[name] {
							left++
						}
					}
					if got := len(env.alive()); got != 5 || left != len(before) {
						t.Errorf("%d Machines, want 5; %d of the %d before are left", got, left, len(before))
					}
				})
			}
		}
	}
}
