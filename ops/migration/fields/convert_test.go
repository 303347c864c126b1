package fields_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

// TestCopiesAreWhatClusterAPIAsksFor: each line is a rule of Cluster API that would
// roll, delete or orphan machines if it was broken.
func TestCopiesAreWhatClusterAPIAsksFor(t *testing.T) {
	t.Parallel()
	s := pools.NativePool("pool", 2)
	c, _ := fields.ToClusterAPI(s, pools.ToCluster())
	set, m, o := &c.Sets[0], &c.Machines[0], &c.MCMMachines[0]
	for reason, ok := range map[string]bool{
		"the template of the set is that of the deployment": migration.SameClusterAPITemplate(
			&c.Deployment.Spec.Template.Spec,
			&set.Spec.Template.Spec),
		"the set has as many as there are":   *set.Spec.Replicas == 2 && *c.Deployment.Spec.Replicas == 2,
		"the set has the hash in its labels": set.Labels[clusterv1.MachineDeploymentUniqueLabel] == "1234567890",
		"in its selector": set.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentUniqueLabel] ==
			"1234567890",
		"in its template": set.Spec.Template.Labels[clusterv1.MachineDeploymentUniqueLabel] ==
			"1234567890",
		"and a revision":                 set.Annotations[clusterv1.RevisionAnnotation] == "3",
		"the deployment selects the set": objects.Selects(&c.Deployment.Spec.Selector, set.Labels),
		"the set selects the Machine":    objects.Selects(&set.Spec.Selector, m.Labels),
		"the Machine is not taken for a stand-alone one": m.Labels[clusterv1.MachineSetNameLabel] == set.Name &&
			m.OwnerReferences[0].Name == set.Name,
		"the Machine names its deployment": m.Labels[clusterv1.MachineDeploymentNameLabel] == "pool",
		"it is up to date": m.Spec.Version == pools.TestVersion &&
			set.Spec.Template.Spec.Version == pools.TestVersion,
		"it has booted": *m.Spec.Bootstrap.DataSecretName == c.BootstrapSecrets[0].Name &&
			!m.Spec.Bootstrap.ConfigRef.IsDefined(),
		"its VM is the Node's, byte for byte": m.Spec.ProviderID == "sim:///zone-a/i-"+m.Name &&
			o.Spec.ProviderID == m.Spec.ProviderID,
		"the MCMMachine has no set for an owner": len(o.OwnerReferences) == 1 &&
			o.OwnerReferences[0].Kind == "Machine" && *o.OwnerReferences[0].Controller,
		"it keeps its VM": o.Annotations[machinev1.RetainVMAnnotation] == "true",
		"and its tags": o.Annotations[machinev1.OwnerIDAnnotation] == "owner-"+o.Name &&
			o.Annotations[machinev1.AppliedTagsAnnotation] == `{"keys":["team"]}`,
		"and its load balancers": o.Annotations[machinev1.LoadBalancersAnnotation] == `{"places":["lb/1"],"registered":true}`,
		"it was cloned from the set's template": o.Annotations[clusterv1.TemplateClonedFromNameAnnotation] ==
			set.Spec.Template.Spec.InfrastructureRef.Name,
		"by its group": o.Annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] ==
			"MCMMachineTemplate.infrastructure.cluster.x-k8s.io",
		"it keeps the Node's taints": len(o.Spec.NodeTemplate.Taints) == 1,
		"the template exists":        c.MachineTemplates[0].Name == set.Spec.Template.Spec.InfrastructureRef.Name,
		"for boot data too":          c.ConfigTemplates[0].Name == set.Spec.Template.Spec.Bootstrap.ConfigRef.Name,
		"the Secret is one that Cluster API sees": c.BootstrapSecrets[0].Type == clusterv1.ClusterSecretType &&
			c.BootstrapSecrets[0].Labels[clusterv1.ClusterNameLabel] == "shoot" && len(c.BootstrapSecrets[0].Data["value"]) > 0,
		"one is replaced at a time": c.Deployment.Spec.Remediation.MaxInFlight.String() == "1",
		"of the same bounds": c.Deployment.Spec.Rollout.
			Strategy.RollingUpdate.MaxUnavailable.String() == "20%",
		"drains end":                                          *m.Spec.Deletion.NodeDrainTimeoutSeconds == 7200,
		"machines that do not join are replaced":              *c.HealthCheck.Spec.Checks.NodeStartupTimeoutSeconds == 1200,
		"the health check selects them":                       objects.Selects(&c.HealthCheck.Spec.Selector, m.Labels),
		"one pair for Ready, one for each of four conditions": len(c.HealthCheck.Spec.Checks.UnhealthyNodeConditions) == 10,
		"no label of the native API is carried along":         m.Labels[machinev1.NodeLabel] == "",
	} {
		if !ok {
			t.Errorf("not so: %s", reason)
		}
	}
	for name, annotations := range map[string]map[string]string{
		"MachineDeployment": c.Deployment.Annotations, "MachineSet": set.Annotations, "Machine": m.Annotations,
		"MCMMachine": o.Annotations,
	} {
		if _, paused := annotations[clusterv1.PausedAnnotation]; !paused {
			t.Errorf("the %s is not paused", name)
		}
		if from := annotations[machinev1.MigratedFromAnnotation]; !strings.Contains(from, "/uid-") {
			t.Errorf("the %s does not say what it is a copy of: %q", name, from)
		}
		for key := range annotations {
			if strings.HasPrefix(key, fields.ClusterAPIBounds) {
				t.Errorf("the %s has bounds: %s", name, key)
			}
		}
	}
}

func TestPriorities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason, key, value string
		first              bool
	}{
		{"MCM's own is nothing special", machinev1.PriorityAnnotation, "3", false},
		{"1 goes first", machinev1.PriorityAnnotation, "1", true},
		{"the autoscaler has chosen it", machinev1.DeleteMachineAnnotation, "2026-01-01", true},
	} {
		s := pools.NativePool("pool", 1)
		s.Native.Machines[0].Annotations[c.key] = c.value
		out, _ := fields.ToClusterAPI(s, pools.ToCluster())
		if _, first := out.Machines[0].Annotations[clusterv1.DeleteMachineAnnotation]; first != c.first {
			t.Errorf("%s: delete-machine is %v", c.reason, first)
		}
	}
}

func TestRolloutIsCopiedSetBySet(t *testing.T) {
	t.Parallel()
	s := pools.NativePool("pool", 1)
	old := s.Native.Deployment.Spec.Template.DeepCopy()
	old.Spec.Class.Name = "old"
	pools.AddSet(s, "pool-old", "99", *old, 2)
	pools.AddSet(s, "pool-gone", "98", *old, 0)
	c, findings := fields.ToClusterAPI(s, pools.ToCluster())
	if len(c.Sets) != 2 || len(c.Machines) != 3 || len(c.MachineTemplates) != 2 {
		t.Fatalf("%d sets, %d machines, %d templates", len(c.Sets), len(c.Machines), len(c.MachineTemplates))
	}
	if migration.SameClusterAPITemplate(&c.Sets[0].Spec.Template.Spec, &c.Sets[1].Spec.Template.Spec) {
		t.Error("Cluster API would take both sets for the same")
	}
	if *c.Sets[1].Spec.Replicas != 2 || len(findings) == 0 {
		t.Errorf("set of the old template has %d", *c.Sets[1].Spec.Replicas)
	}
}

// TestPropagationIsNoRollout: natively a node template reaches the set later.
func TestPropagationIsNoRollout(t *testing.T) {
	t.Parallel()
	s := pools.NativePool("pool", 1)
	s.Native.Deployment.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"new": "label"}
	c, _ := fields.ToClusterAPI(s, pools.ToCluster())
	if !migration.SameClusterAPITemplate(&c.Deployment.Spec.Template.Spec, &c.Sets[0].Spec.Template.Spec) {
		t.Error("Cluster API would roll")
	}
}

func TestBackFromNothing(t *testing.T) {
	t.Parallel()
	s := pools.OnClusterAPI(2)
	s.ClusterAPI.Machines[1].Annotations[clusterv1.DeleteMachineAnnotation] = "true"
	n, findings := fields.ToNative(s, migration.Options{To: migration.Native})
	for _, f := range findings {
		if f.Level == migration.Blocked {
			t.Errorf("finding %s", f)
		}
	}
	m := &n.Machines[0]
	for reason, ok := range map[string]bool{
		"the deployment is one that MCM accepts": n.Deployment.Spec.Selector.MatchLabels["pool"] == "pool" &&
			n.Deployment.Spec.Replicas == 2,
		"its strategy is the same":            n.Deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.String() == "20%",
		"the native API goes on with the set": n.CurrentSet() == 0,
		"which has its machines":              n.Sets[0].Spec.Replicas == 2 && n.SetOf(m) == 0,
		"and selects them": objects.Selects(n.Sets[0].Spec.Selector, m.Labels) &&
			objects.Selects(n.Deployment.Spec.Selector, n.Sets[0].Labels),
		"no scaling is pending": n.Sets[0].Annotations[machinev1.DesiredReplicasAnnotation] == "2",
		"the machine keeps its tags": m.Annotations[machinev1.OwnerIDAnnotation] == "owner-"+m.Name &&
			m.Annotations[machinev1.AppliedTagsAnnotation] == `{"keys":["team"]}`,
		"and its load balancers": m.Annotations[machinev1.LoadBalancersAnnotation] == `{"places":["lb/1"],"registered":true}`,
		"and its node":           m.Labels[machinev1.NodeLabel] == "node-of-"+m.Name,
		"its class": m.Spec.Class.Name == "pool-class" &&
			m.Spec.Class.Kind == machinev1.MachineClassKind,
		"its node template": m.Spec.NodeTemplateSpec.Labels["role"] == "worker" &&
			len(m.Spec.NodeTemplateSpec.Spec.Taints) == 1,
		"its VM, which gets MCM's form": m.Spec.ProviderID == "sim:///zone-a/i-"+m.Name &&
			m.Annotations[machinev1.ProviderIDFormAnnotation] == "mcm",
		"it is held": m.Annotations[machinev1.MigrationHoldAnnotation] == "hold-2" &&
			n.Deployment.Annotations[machinev1.MigrationHoldAnnotation] == "hold-2",
		"it is not deleted with its object": len(m.Finalizers) == 1 && m.Finalizers[0] == machinev1.Finalizer,
		"its controller stands first": m.OwnerReferences[0].Name == n.Sets[0].Name &&
			*m.OwnerReferences[0].Controller,
		"it has joined": m.Status.CurrentStatus.Phase == machinev1.MachineRunning &&
			m.Status.NodeRef.Name == "node-of-"+m.Name,
		"what is nothing special stays so":         m.Annotations[machinev1.PriorityAnnotation] == "3",
		"who is to go first natively does, too":    n.Machines[1].Annotations[machinev1.PriorityAnnotation] == "1",
		"what only Cluster API says stays there":   m.Labels[clusterv1.ClusterNameLabel] == "",
		"timeouts are the manager's where equal":   m.Spec.MachineConfiguration == nil,
		"no annotation of Cluster API's is copied": m.Annotations[clusterv1.PausedAnnotation] == "",
	} {
		if !ok {
			t.Errorf("not so: %s", reason)
		}
	}
}

// TestRolledOnClusterAPI: there was a rollout to another class meanwhile, of which
// the native objects know nothing.
func TestRolledOnClusterAPI(t *testing.T) {
	t.Parallel()
	s := pools.NativePool("pool", 1)
	s.ClusterAPI, _ = fields.ToClusterAPI(s, pools.ToCluster())
	s.ClusterAPI = pools.Made(s.ClusterAPI)
	template := s.ClusterAPI.MachineTemplates[0].DeepCopy()
	template.Name, template.Spec.Template.Spec.MachineClassRef.Name = "new", "pool-class-2"
	s.ClusterAPI.MachineTemplates = append(s.ClusterAPI.MachineTemplates, *template)
	rolled(s, "new")
	n, _ := fields.ToNative(s, migration.Options{To: migration.Native})
	current := n.CurrentSet()
	if current < 0 || n.Sets[current].Name != "pool-zzzzz" || n.Sets[current].Spec.Replicas != 1 ||
		n.Deployment.Spec.Template.Spec.Class.Name != "pool-class-2" {
		t.Errorf("the native API would roll: current set %d of %v", current, n.Sets)
	}
	if len(n.Machines) != 1 || n.Machines[0].Name != "pool-zzzzz-1" {
		t.Errorf("machines %v", n.Machines)
	}
}

// TestRolledToAnotherVersion: the native API does not know versions. It must not
// take the empty old set for the one to go on with, and roll back.
func TestRolledToAnotherVersion(t *testing.T) {
	t.Parallel()
	s := pools.NativePool("pool", 1)
	s.ClusterAPI, _ = fields.ToClusterAPI(s, pools.ToCluster())
	s.ClusterAPI = pools.Made(s.ClusterAPI)
	rolled(s, s.ClusterAPI.MachineTemplates[0].Name)
	n, _ := fields.ToNative(s, migration.Options{To: migration.Native})
	for i := range n.Sets {
		if n.Sets[i].CreationTimestamp.IsZero() {
			n.Sets[i].CreationTimestamp = metav1.NewTime(pools.TestBirth.AddDate(1, 0, 0)) // it is made now
		}
	}
	current := n.CurrentSet()
	if current < 0 || n.Sets[current].Spec.Replicas != 1 || n.SetOf(&n.Machines[0]) != current ||
		!objects.Selects(n.Sets[current].Spec.Selector, n.Machines[0].Labels) {
		t.Errorf("the native API would roll: current set %d of %v", current, n.Sets)
	}
}

// rolled is the pool after a rollout on Cluster API to a template and version v2:
// its only set and machine are new.
func rolled(s *migration.PoolState, template string) {
	c := &s.ClusterAPI
	c.Deployment.Spec.Template.Spec.InfrastructureRef.Name, c.Deployment.Spec.Template.Spec.Version = template, "v2.0.0"
	set := *c.Sets[0].DeepCopy()
	set.Name, set.UID, set.CreationTimestamp = "pool-zzzzz", "uid-z", metav1.NewTime(pools.TestBirth.Add(time.Hour*24))
	set.Spec.Template.Spec.InfrastructureRef.Name, set.Spec.Template.Spec.Version = template, "v2.0.0"
	for _, labels := range []map[string]string{set.Labels, set.Spec.Template.Labels, set.Spec.Selector.MatchLabels} {
		labels[clusterv1.MachineDeploymentUniqueLabel] = "77-zzzzz"
	}
	set.Annotations = map[string]string{clusterv1.RevisionAnnotation: "4"}
	m := *c.Machines[0].DeepCopy()
	m.Name, m.UID, m.Labels, m.Annotations = "pool-zzzzz-1", "uid-z-1", objects.Merge(set.Spec.Template.Labels), nil
	m.OwnerReferences = []metav1.OwnerReference{objects.ControllerRef(clusterv1.GroupVersion.WithKind("MachineSet"),
		set.Name)}
	m.OwnerReferences[0].UID = set.UID
	m.Spec.InfrastructureRef.Name, m.Spec.ProviderID = m.Name, "sim:///zone-a/i-z"
	o := infrav1.MCMMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: pools.TestNamespace, Name: m.Name, UID: "uid-o"},
		Spec:       c.MCMMachines[0].Spec,
	}
	o.Spec.ProviderID = m.Spec.ProviderID
	c.Sets, c.Machines, c.MCMMachines = []clusterv1.MachineSet{set}, []clusterv1.Machine{m}, []infrav1.MCMMachine{o}
}

// TestHomeOnClusterAPI: a pool of Cluster API that was native for a while gets its
// own templates back, which this project did not name.
func TestHomeOnClusterAPI(t *testing.T) {
	t.Parallel()
	s := pools.OnClusterAPI(2)
	c := &s.ClusterAPI
	for _, spec := range []*clusterv1.MachineSpec{&c.Deployment.Spec.Template.Spec, &c.Sets[0].Spec.Template.Spec} {
		spec.InfrastructureRef.Name, spec.Bootstrap.ConfigRef.Name, spec.Bootstrap.ConfigRef.Kind = "md-0", "md-0",
			"KubeadmConfigTemplate"
		spec.FailureDomain = "zone-a"
	}
	c.MachineTemplates[0].Name = "md-0"
	c.Deployment.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{
		Type: clusterv1.OnDeleteMachineDeploymentStrategyType,
	}
	n, _ := fields.ToNative(s, migration.Options{To: migration.Native})
	s.Native = made2(n)
	s.Native.Deployment.Spec.Replicas = 5
	back, _ := fields.ToClusterAPI(s, pools.ToCluster())
	if !migration.SameClusterAPITemplate(&back.Deployment.Spec.Template.Spec, &c.Deployment.Spec.Template.Spec) ||
		!migration.SameClusterAPITemplate(&back.Sets[0].Spec.Template.Spec, &c.Sets[0].Spec.Template.Spec) {
		t.Errorf("Cluster API would roll: %+v", back.Deployment.Spec.Template.Spec)
	}
	if back.Deployment.Spec.Rollout.Strategy.Type != clusterv1.OnDeleteMachineDeploymentStrategyType ||
		objects.Value(back.Deployment.Spec.Paused) {
		t.Errorf("strategy %+v", back.Deployment.Spec.Rollout.Strategy)
	}
	if *back.Deployment.Spec.Replicas != 5 || len(back.MachineTemplates) != 0 || len(back.ConfigTemplates) != 0 {
		t.Errorf("replicas %d, new templates %d, %d", *back.Deployment.Spec.Replicas, len(back.MachineTemplates),
			len(back.ConfigTemplates))
	}
}

// made2 is what made is, for native objects.
func made2(n migration.NativeObjects) migration.NativeObjects {
	for i := range n.Machines {
		n.Machines[i].UID = "n" + n.Machines[i].UID
	}
	return n
}
