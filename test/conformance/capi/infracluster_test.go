package capi

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// The endpoint is the user's, or the control plane object's: where it is set it
// stays, where it is not it stays empty.
func TestInfraClusterControlPlaneEndpoint(t *testing.T) {
	t.Parallel()
	for name, endpoint := range map[string]clusterv1.APIEndpoint{
		"Set":    {Host: "api.example.com", Port: 6443},
		"NotSet": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			change(w, theMCMCluster(), func(c *infrav1.MCMCluster) { c.Spec.ControlPlaneEndpoint = endpoint })
			w.run(clusterController, "c1")
			if got := read(w, theMCMCluster()).Spec.ControlPlaneEndpoint; got != endpoint {
				t.Errorf("the endpoint is %v, and was %v", got, endpoint)
			}
		})
	}
}

func TestInfraClusterFailureDomains(t *testing.T) {
	t.Parallel()
	domains := []clusterv1.FailureDomain{
		{Name: "sim-1a", ControlPlane: new(true), Attributes: map[string]string{"x": "y"}}, {Name: "sim-1b"},
	}
	w := newEnv(t)
	change(w, theMCMCluster(), func(c *infrav1.MCMCluster) { c.Spec.FailureDomains = domains })
	w.run(clusterController, "c1")
	if got := read(w, theMCMCluster()).Status.FailureDomains; len(got) != 0 {
		t.Errorf("%v is offered before a class is known that can honour it", got)
	}
	w.create(theTemplate())
	w.run(clusterController, "c1")
	if diff := cmp.Diff(domains, read(w, theMCMCluster()).Status.FailureDomains); diff != "" {
		t.Errorf("status.failureDomains are where machines can be (-want +got):\n%s", diff)
	}
}

// A cluster without anything of its own in the cloud is provisioned at once.
func TestInfraClusterInitializationCompleted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.run(clusterController, "c1")
	if p := read(w, theMCMCluster()).Status.Initialization.Provisioned; p == nil || !*p {
		t.Error("status.initialization.provisioned is not true")
	}
	w.writes = nil
	w.run(clusterController, "c1")
	w.unchanged("an unchanged object is not written")
	change(w, theMCMCluster(), func(c *infrav1.MCMCluster) { c.Finalizers = nil })
	w.run(clusterController, "c1")
	if !slices.Contains(read(w, theMCMCluster()).Finalizers, machinev1.MCMClusterFinalizer) {
		t.Error("the finalizer does not come back")
	}
}

func TestInfraClusterConditions(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.run(clusterController, "c1")
	if got := w.condition(theMCMCluster(), clusterv1.ReadyCondition); got != "True "+infrav1.ReasonReady {
		t.Errorf("Ready is %q; core mirrors it into the Cluster's InfrastructureReady", got)
	}
	checkConditions(t, read(w, theMCMCluster()).Status.Conditions)
}

// There is no terminal state: what is missing is a condition, and may come.
func TestInfraClusterTerminalFailures(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.delete(theCluster())
	w.run(clusterController, "c1")
	if got := w.condition(theMCMCluster(), clusterv1.ReadyCondition); got != "False "+infrav1.ReasonWaitingForCluster {
		t.Errorf("Ready is %q", got)
	}
	w.create(theCluster())
	w.run(clusterController, "c1")
	if got := w.condition(theMCMCluster(), clusterv1.ReadyCondition); !strings.HasPrefix(got, "True") {
		t.Errorf("Ready is %q", got)
	}
}

// The page speaks of a label; what core and all providers look for is the
// annotation. Whoever it names writes the status, too.
func TestInfraClusterExternallyManaged(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	change(w, theMCMCluster(), func(c *infrav1.MCMCluster) {
		c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: ""}
	})
	w.run(clusterController, "c1")
	w.unchanged("somebody else's infrastructure is not touched, not even its status")
	w.create(theMCMMachine(w.clock.Now()), theMachine(), bootData())
	w.run(classController, "small")
	w.provision()
}

func TestInfraClusterPausing(t *testing.T) {
	t.Parallel()
	for name, pause := range pauses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			pause(w, theMCMCluster())
			w.run(clusterController, "c1")
			o := read(w, theMCMCluster())
			if len(o.Finalizers) != 0 || len(o.Status.Conditions) != 1 ||
				!strings.HasPrefix(w.condition(o, clusterv1.PausedCondition), "True") {
				t.Errorf("a paused cluster is told that it is paused, and nothing else: %+v", o)
			}
		})
	}
}

// Core deletes Machines first; whatever the order, machines need their cluster.
func TestInfraClusterDeletionWaitsForItsMachines(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	m := w.running()
	w.delete(theMCMCluster())
	w.run(clusterController, "c1")
	if got := w.condition(theMCMCluster(), clusterv1.DeletingCondition); got != "True "+infrav1.ReasonWaitingForMachines {
		t.Errorf("Deleting is %q", got)
	}
	w.delete(m)
	w.settle(w.gone(m))
	w.run(clusterController, "c1")
	if exists(w, theMCMCluster()) {
		t.Error("nothing holds it any more")
	}
}

func TestInfraClusterWatchFilter(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.filter = "mine"
	w.restart()
	w.run(clusterController, "c1")
	w.unchanged("an object of another instance is not touched")
}

// A template is the copy's business: capacity for the autoscaler comes from the
// class, or from the cloud where the class does not say it.
func TestInfraMachineTemplateSupportForClusterAutoscalingFromZero(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theTemplate())
	w.run(templateController, "t")
	status := read(w, theTemplate()).Status
	if status.Capacity.Cpu().IsZero() || status.Capacity.Memory().IsZero() || status.NodeInfo.Architecture != "amd64" ||
		status.NodeInfo.OperatingSystem != "linux" {
		t.Errorf("status %+v", status)
	}
	change(w, theClass("small"), func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(c.ProviderSpec.Raw), `"instanceType":"small"`,
			`"instanceType":"gpu"`))
	})
	w.run(templateController, "t")
	if gpus := read(w, theTemplate()).Status.Capacity["nvidia.com/gpu"]; gpus.IsZero() {
		t.Errorf("capacity %v does not follow the class", read(w, theTemplate()).Status.Capacity)
	}
}

func TestInfraMachineTemplatePausing(t *testing.T) {
	t.Parallel()
	for name, pause := range pauses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, theTemplate())
			pause(w, theTemplate())
			w.run(templateController, "t")
			if status := read(w, theTemplate()).Status; len(status.Capacity) != 0 || len(status.Conditions) != 1 {
				t.Errorf("status %+v", status)
			}
		})
	}
}

// Nothing refuses a change, so a server-side dry run of the topology controller
// meets no check; an edit in place is a condition, since no machine follows it.
func TestInfraMachineTemplateEditedInPlaceIsShown(t *testing.T) {
	t.Parallel()
	w := newEnv(t, theTemplate())
	w.run(templateController, "t")
	change(w, theTemplate(), func(o *infrav1.MCMMachineTemplate) {
		o.Spec.Template.Spec.NodeTemplate.Labels = map[string]string{"a": "b"}
	})
	w.run(templateController, "t")
	if got := w.condition(theTemplate(), clusterv1.ReadyCondition); got != "False "+infrav1.ReasonEditedInPlace {
		t.Errorf("Ready is %q", got)
	}
	if told := w.told(); !strings.Contains(told, "name a new MCMMachineTemplate") {
		t.Errorf("the Event says what to do: %s", told)
	}
}
