package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

// nativeSetPool is a MachineSet of two machines that belongs to nothing.
func nativeSetPool() *migration.PoolState {
	s := pools.NativePool("pool", 2)
	s.Pool = migration.Pool{Kind: migration.KindSet, Namespace: pools.TestNamespace, Name: "pool-abcde"}
	s.Native.Deployment, s.Native.Sets[0].OwnerReferences = nil, nil
	return s
}

// nativeMachinePool is a Machine that belongs to nothing.
func nativeMachinePool() *migration.PoolState {
	s := pools.NativePool("pool", 1)
	s.Pool = migration.Pool{Kind: migration.KindMachine, Namespace: pools.TestNamespace, Name: s.Native.Machines[0].Name}
	s.Native.Deployment, s.Native.Sets, s.Native.Machines[0].OwnerReferences = nil, nil, nil
	return s
}

// finds reports whether findings have one of that level with a text in it.
func finds(all []migration.Finding, level migration.Level, text string) bool {
	return slices.ContainsFunc(all, func(f migration.Finding) bool {
		return f.Level == level && strings.Contains(f.Field+" "+f.Text, text) &&
			(level != migration.Blocked || f.Remedy != "")
	})
}

// TestOtherPools: a MachineSet or Machine of its own is planned as a pool with a
// MachineDeployment is, and a part of a pool is refused.
func TestOtherPools(t *testing.T) {
	t.Parallel()
	set := func(change func(*machinev1.MachineSet)) func(*migration.PoolState) {
		return func(s *migration.PoolState) { change(&s.Native.Sets[0]); s.Around.Sets[0] = s.Native.Sets[0] }
	}
	config := func(s *machinev1.MachineSet) *machinev1.MachineConfiguration {
		s.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{}
		return s.Spec.Template.Spec.MachineConfiguration
	}
	controlled := []metav1.OwnerReference{{Kind: "Boss", Name: "b", UID: "u", Controller: new(true)}}
	for _, c := range []struct {
		reason string
		pool   func() *migration.PoolState
		spoil  func(*migration.PoolState)
		level  migration.Level
		want   string
	}{
		{"its MachineDeployment would make another set, with machines", nativeSetPool, set(func(s *machinev1.MachineSet) {
			s.OwnerReferences = controlled
		}), migration.Blocked, "belongs to Boss b"},
		{"its MachineSet would make another machine", nativeMachinePool, func(s *migration.PoolState) {
			s.Native.Machines[0].OwnerReferences = controlled
		}, migration.Blocked, "belongs to Boss b"},
		{"a set that scales", nativeSetPool, set(func(s *machinev1.MachineSet) {
			s.Spec.Replicas = 5
		}), migration.Blocked, "5 machines are wanted, and there are 2"},
		{"a set that is frozen", nativeSetPool, set(func(s *machinev1.MachineSet) {
			s.Labels[machinev1.FreezeLabel] = "True"
		}), migration.Blocked, "frozen"},
		{"a set that selects everything", nativeSetPool, set(func(s *machinev1.MachineSet) {
			s.Spec.Selector = &metav1.LabelSelector{}
		}), migration.Blocked, "selects everything"},
		{"sets that select each other's machines", nativeSetPool, func(s *migration.PoolState) {
			other := s.Native.Sets[0].DeepCopy()
			other.Name = "other"
			s.Around.Sets = append(s.Around.Sets, *other)
		}, migration.Blocked, "and MachineSet other select each other's"},
		{"a machine that a set would adopt", nativeMachinePool, func(s *migration.PoolState) {
			s.Around.Sets = []machinev1.MachineSet{pools.NativePool("pool", 1).Native.Sets[0]}
		}, migration.Blocked, "MachineSet pool-abcde selects it"},
		{"a set whose VMs are preserved", nativeSetPool, set(func(s *machinev1.MachineSet) {
			s.Spec.AutoPreserveFailedMachineMax = 1
		}), migration.Lost, "spec.autoPreserveFailedMachineMax"},
		{"a set with retries", nativeSetPool, set(func(s *machinev1.MachineSet) {
			config(s).MaxEvictRetries = new(int32(3))
		}), migration.Lost, "spec.template.spec.maxEvictRetries"},
		{"a set with a drain timeout", nativeSetPool, set(func(s *machinev1.MachineSet) {
			config(s).MachineDrainTimeout = &metav1.Duration{Duration: time.Hour}
		}), migration.Replaced, "nodeDrainTimeoutSeconds 3600"},
		{
			"a set with a health timeout", nativeSetPool, func(*migration.PoolState) {}, migration.Replaced,
			"spec.template.spec.healthTimeout",
		},
		{"a set with a finalizer in its template", nativeSetPool, set(func(s *machinev1.MachineSet) {
			s.Spec.Template.Finalizers = []string{"a/b"}
		}), migration.Lost, "spec.template.metadata"},
		{"a set whose machines would have one VM", nativeSetPool, set(func(s *machinev1.MachineSet) {
			s.Spec.Template.Spec.ProviderID = "sim:///x"
		}), migration.Blocked, "spec.template.spec.providerID"},
		{"a set that waits", nativeSetPool, set(func(s *machinev1.MachineSet) {
			s.Spec.MinReadySeconds = 7
		}), migration.Replaced, "only 7 seconds"},
		{"a set with bounds", nativeSetPool, set(func(s *machinev1.MachineSet) {
			s.Annotations[machinev1.NodeGroupMinSizeAnnotation] = "1"
		}), migration.Kept, "between APIs"},
		{"a machine with too many taints", nativeMachinePool, func(s *migration.PoolState) {
			s.Native.Machines[0].Spec.NodeTemplateSpec.Spec.Taints = make([]corev1.Taint, fields.MaxTaints+1)
		}, migration.Blocked, "65"},
		{"a machine with a taint twice", nativeMachinePool, func(s *migration.PoolState) {
			s.Native.Machines[0].Spec.NodeTemplateSpec.Spec.Taints = []corev1.Taint{
				{Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule},
				{Key: "a", Value: "2", Effect: corev1.TaintEffectNoSchedule},
			}
		}, migration.Blocked, `refuses the taint "a=2:NoSchedule"`},
		{"a machine with a wrong label", nativeMachinePool, func(s *migration.PoolState) {
			s.Native.Machines[0].Spec.NodeTemplateSpec.Labels = map[string]string{"a": "no spaces"}
		}, migration.Blocked, `refuses the label "a=no spaces"`},
		{"a machine of another kind of class", nativeMachinePool, func(s *migration.PoolState) {
			s.Native.Machines[0].Spec.Class.Kind = "AWSMachineClass"
		}, migration.Blocked, `"AWSMachineClass" is not MachineClass`},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			s := c.pool()
			pools.Around(s)
			if blocked := Of(s, pools.ToCluster()).Blocked(); len(blocked) > 0 {
				t.Fatalf("blocked before anything is wrong: %v", blocked)
			}
			c.spoil(s)
			if p := Of(s, pools.ToCluster()); !finds(p.Findings, c.level, c.want) {
				t.Errorf("want %s: %s, got %v", c.level, c.want, p.Findings)
			}
		})
	}
}

// TestOtherPoolsOfClusterAPI is the same in the other direction.
func TestOtherPoolsOfClusterAPI(t *testing.T) {
	t.Parallel()
	controlled := []metav1.OwnerReference{{Kind: "Boss", Name: "b", UID: "u", Controller: new(true)}}
	set := func(change func(*clusterv1.MachineSet)) func(*migration.PoolState) {
		return func(s *migration.PoolState) { change(&s.ClusterAPI.Sets[0]) }
	}
	machine := func(change func(*clusterv1.Machine)) func(*migration.PoolState) {
		return func(s *migration.PoolState) { change(&s.ClusterAPI.Machines[0]) }
	}
	sets := nativeSetPool
	for _, c := range []struct {
		reason string
		pool   func() *migration.PoolState
		spoil  func(*migration.PoolState)
		level  migration.Level
		want   string
	}{
		{"its MachineDeployment would make another set", sets, set(func(s *clusterv1.MachineSet) {
			s.OwnerReferences = controlled
		}), migration.Blocked, "belongs to Boss b"},
		{"its MachineSet would make another machine", nativeMachinePool, machine(func(m *clusterv1.Machine) {
			m.OwnerReferences = controlled
		}), migration.Blocked, "belongs to Boss b"},
		{"a set that scales", sets, set(func(s *clusterv1.MachineSet) {
			s.Spec.Replicas = new(int32(7))
		}), migration.Blocked, "7 machines are wanted, and there are 2"},
		{"a set that goes", sets, set(func(s *clusterv1.MachineSet) {
			s.DeletionTimestamp = &pools.TestBirth
		}), migration.Blocked, "is being deleted"},
		{"a set that drains without end", sets, set(func(s *clusterv1.MachineSet) {
			s.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = nil
		}), migration.Lost, "as long as it takes"},
		{"a set that names its machines", sets, set(func(s *clusterv1.MachineSet) {
			s.Spec.MachineNaming.Template = "x"
		}), migration.Lost, "names machines itself"},
		{"a set that deletes the newest", sets, set(func(s *clusterv1.MachineSet) {
			s.Spec.Deletion.Order = clusterv1.NewestMachineSetDeletionOrder
		}), migration.Lost, "oldest of equal machines"},
		{"a machine with a gate", nativeMachinePool, machine(func(m *clusterv1.Machine) {
			m.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "a"}}
		}), migration.Lost, "spec.readinessGates"},
		{"a machine that is not to be replaced", sets, machine(func(m *clusterv1.Machine) {
			m.Annotations[clusterv1.MachineSkipRemediationAnnotation] = ""
		}), migration.Lost, "asks it not to"},
		{"a machine that is not to be drained", sets, machine(func(m *clusterv1.Machine) {
			m.Annotations[clusterv1.ExcludeNodeDrainingAnnotation] = ""
		}), migration.Lost, "drains each node"},
		{"a machine that is to be replaced", sets, machine(func(m *clusterv1.Machine) {
			m.Annotations[clusterv1.RemediateMachineAnnotation] = ""
		}), migration.Blocked, "asks to replace it"},
		{"somebody else's finalizer", sets, machine(func(m *clusterv1.Machine) {
			m.Finalizers = []string{"a/b"}
		}), migration.Lost, "metadata.finalizers[a/b]"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			s := c.pool()
			s.ClusterAPI, _ = fields.ToClusterAPI(s, pools.ToCluster())
			s.ClusterAPI = pools.AtWork(pools.Made(s.ClusterAPI))
			s.Native = migration.NativeObjects{Classes: s.Native.Classes}
			pools.Around(s)
			if blocked := Of(s, migration.Options{To: migration.Native}).Blocked(); len(blocked) > 0 {
				t.Fatalf("blocked before anything is wrong: %v", blocked)
			}
			c.spoil(s)
			if p := Of(s, migration.Options{To: migration.Native}); !finds(p.Findings, c.level, c.want) {
				t.Errorf("want %s: %s, got %v", c.level, c.want, p.Findings)
			}
		})
	}
}

// TestASetThereAndBack: what a MachineSet of its own asks for arrives, also when it
// has another number of machines than that.
func TestASetThereAndBack(t *testing.T) {
	t.Parallel()
	s := nativeSetPool()
	s.Native.Sets[0].Spec.Replicas, s.Native.Sets[0].Spec.MinReadySeconds = 3, 7
	s.Native.Sets[0].Annotations[machinev1.AutoscalingAnnotationPrefix+"scaledownunneededtime"] = "5m"
	s.ClusterAPI, _ = fields.ToClusterAPI(s, pools.ToCluster())
	s.ClusterAPI = pools.Made(s.ClusterAPI)
	set := &s.ClusterAPI.Sets[0]
	if *set.Spec.Replicas != 3 || objects.Value(set.Spec.Template.Spec.MinReadySeconds) != 7 ||
		set.Annotations[fields.ClusterAPIScaling+"scaledownunneededtime"] != "5m" {
		t.Errorf("there it is %+v", set)
	}
	set.Spec.Replicas = new(int32(4))
	back, _ := fields.ToNative(s, migration.Options{To: migration.Native})
	if got := back.Sets[0].Spec; got.Replicas != 4 || got.MinReadySeconds != 7 {
		t.Errorf("back it is %+v", got)
	}
}

// TestTheCluster is about the Cluster that a pool is moved to, or belongs to.
func TestTheCluster(t *testing.T) {
	t.Parallel()
	exists := func(s *migration.PoolState) {
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: pools.TestNamespace, Name: "shoot"}}
		c.Spec.ControlPlaneRef.Name, c.Spec.ControlPlaneRef.Kind = "shoot", "MCMExternalControlPlane"
		s.Cluster.Cluster = c
		s.Cluster.ControlPlane = &controlplanev1.MCMExternalControlPlane{ObjectMeta: c.ObjectMeta}
	}
	for _, c := range []struct {
		reason  string
		spoil   func(*migration.PoolState)
		options func(*migration.Options)
		want    string // empty: nothing is in the way
	}{
		{"a new Cluster", func(*migration.PoolState) {}, func(*migration.Options) {}, ""},
		{"no Cluster is called so", func(*migration.PoolState) {}, func(o *migration.Options) {
			o.Cluster = "My_Shoot"
		}, "no Cluster can be called so"},
		{"its name goes into labels", func(*migration.PoolState) {}, func(o *migration.Options) {
			o.Cluster = strings.Repeat("x", 64)
		}, "no Cluster can be called so"},
		{"Cluster API would look for the nodes among its own", func(*migration.PoolState) {}, func(o *migration.Options) {
			o.Apart = true
		}, "nodes are in another cluster"},
		{"with a kubeconfig it looks there", func(*migration.PoolState) {}, func(o *migration.Options) {
			o.Apart, o.KubeconfigSecret = true, "cloud"
		}, ""},
		{"a kubeconfig that is not there", func(*migration.PoolState) {}, func(o *migration.Options) {
			o.KubeconfigSecret = "none"
		}, "garden/none does not exist"},
		{"a Cluster that looks among its own", func(s *migration.PoolState) {
			exists(s)
			s.Cluster.ControlPlane.Spec.SelfHosted = new(true)
		}, func(o *migration.Options) { o.Apart = true }, "says selfHosted"},
		{"a Cluster with another kubeconfig", exists, func(o *migration.Options) {
			o.KubeconfigSecret = "cloud"
		}, "not reached by Secret cloud"},
		{"a Cluster with this kubeconfig", func(s *migration.PoolState) {
			exists(s)
			s.Cluster.ControlPlane.Spec.KubeconfigSecretRef = &controlplanev1.NameReference{Name: "cloud"}
		}, func(o *migration.Options) { o.KubeconfigSecret = "cloud" }, ""},
		{
			"the classes' Secret", func(s *migration.PoolState) { clear(s.Around.Secrets) }, func(*migration.Options) {},
			"garden/cloud does not exist",
		},
		{"a version that Cluster API refuses", func(s *migration.PoolState) {
			s.Native.Machines, s.Native.Deployment.Spec.Replicas = nil, 0
			clear(s.Nodes)
		}, func(o *migration.Options) { o.Defaults.KubeletVersion = "1.36.3" }, `"1.36.3" is no semantic version`},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			s, o := pools.NativePool("pool", 2), pools.ToCluster()
			pools.Around(s)
			c.spoil(s)
			c.options(&o)
			blocked := Of(s, o).Blocked()
			if c.want == "" && len(blocked) > 0 || c.want != "" && !finds(blocked, migration.Blocked, c.want) {
				t.Errorf("want it blocked by %q, got %v", c.want, blocked)
			}
		})
	}
}

// TestBackNeedsNoName: a pool says itself which Cluster it belongs to.
func TestBackNeedsNoName(t *testing.T) {
	t.Parallel()
	s := pools.OnClusterAPI(2)
	s.Record = nil
	pools.Around(s)
	if p := Of(s, migration.Options{To: migration.Native}); len(p.Blocked()) > 0 || p.Cluster != "shoot" {
		t.Errorf("Cluster %q, blocked by %v", p.Cluster, p.Blocked())
	}
	if p := Of(s, migration.Options{To: migration.Native, Cluster: "other"}); !finds(p.Blocked(), migration.Blocked,
		"belongs to Cluster shoot, not to other") {
		t.Errorf("another Cluster: blocked by %v", p.Blocked())
	}
}

// TestHealthChecksOfOthers: there may be MachineHealthChecks already, which are not
// the pool's.
func TestHealthChecksOfOthers(t *testing.T) {
	t.Parallel()
	check := func(name, cluster string, labels map[string]string) clusterv1.MachineHealthCheck {
		return clusterv1.MachineHealthCheck{
			ObjectMeta: metav1.ObjectMeta{Namespace: pools.TestNamespace, Name: name},
			Spec: clusterv1.MachineHealthCheckSpec{
				ClusterName: cluster,
				Selector:    metav1.LabelSelector{MatchLabels: labels},
			},
		}
	}
	for _, c := range []struct {
		reason string
		check  clusterv1.MachineHealthCheck
		level  migration.Level
		want   string // empty: nothing is in the way
	}{
		{
			"one for the whole Cluster", check("all", "shoot", map[string]string{clusterv1.ClusterNameLabel: "shoot"}),
			migration.Lost,
			"spec.selector this MachineHealthCheck selects",
		},
		{"one of another Cluster", check("all", "other", nil), "", ""},
		{
			"one of another pool", check("all", "shoot", map[string]string{clusterv1.MachineDeploymentNameLabel: "other"}), "",
			"",
		},
		{
			"one that has the name", check("pool", "shoot", map[string]string{clusterv1.MachineDeploymentNameLabel: "other"}),
			migration.Blocked, "was not made from",
		},
	} {
		s := pools.NativePool("pool", 2)
		pools.Around(s).HealthChecks = []clusterv1.MachineHealthCheck{c.check}
		p := Of(s, pools.ToCluster())
		if c.want == "" && len(p.Blocked()) > 0 || c.want != "" && !finds(p.Blocked(), c.level, c.want) {
			t.Errorf("%s: want it blocked by %q, got %v", c.reason, c.want, p.Blocked())
		}
		if made := slices.ContainsFunc(p.Creates, func(o Objects) bool {
			return o.Kind == objects.KindHealthCheck
		}); made == (c.level == migration.Lost) {
			t.Errorf("%s: one is made: %v", c.reason, made)
		}
	}
}
