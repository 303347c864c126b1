package migration

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// around gives a scene surroundings with nothing in them but the pool itself and the
// Secret of its class.
func around(s *Scene) *Surroundings {
	secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "cloud"}}
	s.around = &Surroundings{
		Namespace: testNamespace, Classes: s.Native.Classes,
		Secrets:  map[client.ObjectKey]*metav1.PartialObjectMetadata{client.ObjectKeyFromObject(secret): secret},
		Machines: s.Native.Machines, Sets: s.Native.Sets,
	}
	if s.Native.Deployment != nil {
		s.around.Deployments = append(s.around.Deployments, *s.Native.Deployment)
	}
	return s.around
}

func TestAHealthyPoolCanBeMoved(t *testing.T) {
	t.Parallel()
	s := nativePool("pool", 3)
	around(s)
	p := s.Plan(toCluster())
	if blocked := p.Blocked(); len(blocked) > 0 {
		t.Errorf("blocked by %v", blocked)
	}
	for _, m := range p.Machines {
		if m.Verdict != VerdictKept || m.KubeletVersion != testVersion || m.ProviderID != "sim:///zone-a/i-"+m.Name ||
			m.ProviderIDForm != FormNode {
			t.Errorf("machine %+v", m)
		}
	}
}

// TestBadInput: what keeps a pool from being moved, what the plan calls it, and that
// it says what to do first.
func TestBadInput(t *testing.T) {
	t.Parallel()
	machine := func(change func(*machinev1.Machine)) func(*Scene) {
		return func(s *Scene) { change(&s.Native.Machines[0]) }
	}
	node := func(change func(*corev1.Node)) func(*Scene) {
		return func(s *Scene) { change(s.Nodes[s.Native.Machines[0].Labels[machinev1.NodeLabel]]) }
	}
	phase := func(p machinev1.MachinePhase) func(*Scene) {
		return machine(func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = p })
	}
	deployment := func(change func(*machinev1.MachineDeployment)) func(*Scene) {
		return func(s *Scene) { change(s.Native.Deployment); s.around.Deployments[0] = *s.Native.Deployment }
	}
	for _, c := range []struct {
		reason string
		spoil  func(*Scene)
		want   string // in the finding's text or field
	}{
		{"Failed machines are replaced first", phase(machinev1.MachineFailed), "it is Failed"},
		{"Terminating machines go first", phase(machinev1.MachineTerminating), "it is Terminating"},
		{"a health timeout that runs would be lost", phase(machinev1.MachineUnknown), "it is Unknown"},
		{"Cluster API finds no Node", phase(machinev1.MachinePending), "has not joined"},
		{"nothing is known of its VM", phase(""), "has not joined"},
		{"an update in place has to end", phase(machinev1.MachineInPlaceUpdating), "updated in place"},
		{"without nodes there is no Cluster API", phase(machinev1.MachineAvailable), "no node"},
		{"a deletion has to end", machine(func(m *machinev1.Machine) {
			m.DeletionTimestamp = &testBirth
		}), "is being deleted"},
		{"preservation has no counterpart", machine(func(m *machinev1.Machine) {
			m.Status.CurrentStatus.PreserveExpiryTime = &testBirth
		}), "preserved until 2026-01-01"},
		{"nor has the wish for it", machine(func(m *machinev1.Machine) {
			m.Annotations[machinev1.PreserveAnnotation] = "when-failed"
		}), "asks to preserve"},
		{"also on the Node", node(func(n *corev1.Node) {
			n.Annotations = map[string]string{machinev1.PreserveAnnotation: "now"}
		}), "of its Node asks to preserve"},
		{"forced deletion is not carried over", machine(func(m *machinev1.Machine) {
			m.Labels[machinev1.ForceDeletionLabel] = "true"
		}), "by force"},
		{"somebody adopts it", machine(func(m *machinev1.Machine) {
			m.Annotations[machinev1.HoldAnnotation] = "x"
		}), "being adopted or moved"},
		{"nobody knows which door is the truth", machine(func(m *machinev1.Machine) {
			m.Annotations[machinev1.MigrationHoldAnnotation] = "x"
		}), "no move of the pool is on record"},
		{"the form is being changed", machine(func(m *machinev1.Machine) {
			m.Annotations[machinev1.ProviderIDFormAnnotation] = "mcm"
		}), "MCM's form"},
		{"Cluster API finds Nodes by providerID", node(func(n *corev1.Node) {
			n.Spec.ProviderID = ""
		}), "no spec.providerID"},
		{"another VM would be adopted", node(func(n *corev1.Node) {
			n.Spec.ProviderID = "sim:///zone-a/i-other"
		}), "the Machine's VM is"},
		{"one VM cannot be two machines'", func(s *Scene) {
			s.Native.Machines[1].Labels[machinev1.NodeLabel] = s.Native.Machines[0].Labels[machinev1.NodeLabel]
			s.Native.Machines[1].Spec.ProviderID = s.Native.Machines[0].Spec.ProviderID
		}, "has the same VM"},
		{"the Node is gone", func(s *Scene) {
			delete(s.Nodes, s.Native.Machines[0].Labels[machinev1.NodeLabel])
		}, "Node is not there"},
		{"machines of another version are never up to date", node(func(n *corev1.Node) {
			n.Status.NodeInfo.KubeletVersion = "v1.35.0"
		}), "different versions: v1.35.0 (1), v1.36.3 (2)"},
		{"the webhook refuses such versions", node(func(n *corev1.Node) {
			n.Status.NodeInfo.KubeletVersion = "devel"
		}), "no semantic version"},
		{"the class is needed to delete the VM", func(s *Scene) { clear(s.Native.Classes) }, "does not exist"},
		{"two templates", func(s *Scene) {
			old := s.Native.Deployment.Spec.Template.DeepCopy()
			old.Spec.Class.Name = "old"
			addSet(s, "pool-old", "99", *old, 1)
		}, "middle of a rollout"},
		{"a rollout begins", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Template.Spec.Class.Name = "pool-class-2"
		}), "a rollout begins"},
		{"it scales", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Replicas = 5
		}), "5 machines are wanted, and there are 3"},
		{"nobody looks after it", deployment(func(d *machinev1.MachineDeployment) { d.Generation = 9 }), "has not been seen"},
		{"a rollback is asked for", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.RollbackTo = &machinev1.RollbackConfig{}
		}), "spec.rollbackTo"},
		{"the autoscaler is at it", deployment(func(d *machinev1.MachineDeployment) {
			d.Annotations[machinev1.TriggerDeletionAnnotation] = "m~t"
		}), "asked for the deletion of m~t"},
		{"it is frozen", deployment(func(d *machinev1.MachineDeployment) {
			d.Labels = map[string]string{machinev1.FreezeLabel: "True"}
		}), "frozen"},
		{"it selects everything", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Selector = &metav1.LabelSelector{}
		}), "selects everything"},
		{"it has no strategy", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy.Type = ""
		}), "no strategy of MCM"},
		{"its bounds are incomplete", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy.RollingUpdate.MaxSurge = nil
		}), "maxSurge or maxUnavailable is missing"},
		{"the name does not fit into a label", func(s *Scene) {
			s.Native.Deployment.Name = strings.Repeat("x", 64)
		}, "metadata.name"},
		{"two pools select the same machines", func(s *Scene) {
			other := nativePool("other", 1).Native.Deployment
			other.Spec.Selector.MatchLabels = map[string]string{"team": "x"}
			s.Native.Deployment.Spec.Template.Labels["team"] = "x"
			s.Native.Sets[0].Spec.Template.Labels["team"] = "x"
			s.around.Deployments = append(s.around.Deployments, *other)
		}, "select each other's machines"},
		{"the other door asks the Secret's own namespace", func(s *Scene) {
			s.Native.Classes["pool-class"].SecretRef.Namespace = "elsewhere"
			key := client.ObjectKey{Namespace: "elsewhere", Name: "cloud"}
			s.around.Secrets[key] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "elsewhere",
				Name:      "cloud",
			}}
		}, "does not allow this one"},
		{"two managers must not work on the same machines", func(s *Scene) {
			s.around.Leases = []coordinationv1.Lease{{
				ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: machinev1.LeaseMachineController},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: new("mcm_1"), LeaseDurationSeconds: new(int32(15)),
					RenewTime: new(metav1.NewMicroTime(time.Now())),
				},
			}}
		}, "no manager of this project"},
		{"somebody else's object has the name", func(s *Scene) {
			s.around.ClusterDeployments = []clusterv1.MachineDeployment{{ObjectMeta: metav1.ObjectMeta{
				Namespace: testNamespace,
				Name:      "pool",
			}}}
		}, "was not made from the native"},
		{"Cluster API is not there", func(s *Scene) { s.around.Unserved = []string{"Cluster"} }, "does not know this kind"},
		{"nobody would look after the machines", func(s *Scene) {
			s.Cluster.Cluster = &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: new(true)}}
		}, "it is paused"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			s := nativePool("pool", 3)
			around(s)
			c.spoil(s)
			blocked := s.Plan(toCluster()).Blocked()
			at := slices.IndexFunc(blocked, func(f Finding) bool { return strings.Contains(f.Text+" "+f.Field, c.want) })
			if at < 0 {
				t.Fatalf("want it blocked by %q, got %v", c.want, blocked)
			}
			if blocked[at].Remedy == "" {
				t.Errorf("%s does not say what to do first", blocked[at])
			}
		})
	}
}

// TestASharedClassIsHandled: both doors keep their own finalizer on it.
func TestASharedClassIsHandled(t *testing.T) {
	t.Parallel()
	s := nativePool("pool", 1)
	other := nativePool("stays", 1).Native.Deployment
	other.Spec.Template.Spec.Class.Name = "pool-class"
	around(s).Deployments = append(s.around.Deployments, *other)
	p := s.Plan(toCluster())
	if len(p.Blocked()) > 0 || !slices.ContainsFunc(p.Findings, func(f Finding) bool {
		return f.Level == Kept && strings.Contains(f.Text, "machinedeployment/stays") && strings.Contains(f.Text, "finalizer")
	}) {
		t.Errorf("want the other user named and nothing blocked, got %v", p.Findings)
	}
}

// fieldCases are fields that do not mean the same on the other door. docs/migration.md
// has a row for each.
func fieldCases() []fieldCase {
	deployment := func(change func(*machinev1.MachineDeployment)) func(*Scene) {
		return func(s *Scene) { change(s.Native.Deployment) }
	}
	config := func(change func(*machinev1.MachineConfiguration)) func(*Scene) {
		return deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{}
			change(d.Spec.Template.Spec.MachineConfiguration)
		})
	}
	hour := &metav1.Duration{Duration: time.Hour}
	return []fieldCase{
		{"spec.strategy.type", Lost, "InPlaceUpdate becomes OnDelete", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy = machinev1.MachineDeploymentStrategy{
				Type:          machinev1.InPlaceUpdateStrategyType,
				InPlaceUpdate: &machinev1.InPlaceUpdateMachineDeployment{UpdateConfiguration: d.Spec.Strategy.RollingUpdate.UpdateConfiguration},
			}
		})},
		{"spec.strategy.type", Lost, "Recreate becomes RollingUpdate", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy.Type = machinev1.RecreateStrategyType
		})},
		{"spec.strategy.rollingUpdate", Replaced, "maxUnavailable 1", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy.RollingUpdate.MaxSurge, d.Spec.Strategy.RollingUpdate.MaxUnavailable = new(
				intstr.FromInt32(0)), new(intstr.FromInt32(0))
		})},
		{"spec.minReadySeconds", Replaced, "MCM ignores it", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.MinReadySeconds = 5
		})},
		{"spec.paused", Kept, "no rollouts", deployment(func(d *machinev1.MachineDeployment) { d.Spec.Paused = true })},
		{"spec.progressDeadlineSeconds", Lost, "no deadline", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.ProgressDeadlineSeconds = new(int32(9))
		})},
		{"spec.revisionHistoryLimit", Lost, "deletes old MachineSets", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.RevisionHistoryLimit = new(int32(9))
		})},
		{
			"spec.autoPreserveFailedMachineMax", Lost, "keeps no failed machines",
			deployment(func(d *machinev1.MachineDeployment) { d.Spec.AutoPreserveFailedMachineMax = 1 }),
		},
		{
			"spec.template.spec.drainTimeout", Replaced, "nodeDrainTimeoutSeconds 3600",
			config(func(c *machinev1.MachineConfiguration) { c.MachineDrainTimeout = hour }),
		},
		{"spec.template.spec.healthTimeout", Replaced, "timeoutSeconds 3600", config(func(c *machinev1.MachineConfiguration) {
			c.MachineHealthTimeout = hour
		})},
		{
			"spec.template.spec.creationTimeout", Replaced, "nodeStartupTimeoutSeconds 3600",
			config(func(c *machinev1.MachineConfiguration) { c.MachineCreationTimeout = hour }),
		},
		{"spec.template.spec.nodeConditions", Replaced, "Bad", config(func(c *machinev1.MachineConfiguration) {
			c.NodeConditions = new("Bad")
		})},
		{
			"spec.template.spec.disableHealthTimeout", Kept, "MachineHealthCheck",
			config(func(c *machinev1.MachineConfiguration) { c.DisableHealthTimeout = new(true) }),
		},
		{
			"spec.template.spec.maxEvictRetries", Lost, "until the drain timeout",
			config(func(c *machinev1.MachineConfiguration) { c.MaxEvictRetries = new(int32(3)) }),
		},
		{
			"spec.template.spec.machinePreserveTimeout", Lost, "preserves no machines",
			config(func(c *machinev1.MachineConfiguration) { c.MachinePreserveTimeout = hour }),
		},
		{"spec.template.spec.inPlaceUpdateTimeout", Replaced, "no effect", config(func(c *machinev1.MachineConfiguration) {
			c.MachineInPlaceUpdateTimeout = hour
		})},
		{"spec.template.spec.nodeTemplate", Replaced, "neither a label", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Template.Spec.NodeTemplateSpec.Spec.PodCIDR = "10.0.0.0/24"
		})},
		{"spec.template.metadata", Lost, "only labels and annotations", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Template.Finalizers = []string{"a/b"}
		})},
		{"metadata.annotations[machinepriority.machine.sapcloud.io]", Replaced, "delete-machine", func(s *Scene) {
			s.Native.Machines[0].Annotations[machinev1.PriorityAnnotation] = "1"
		}},
		{"metadata.annotations[machinepriority.machine.sapcloud.io]", Lost, `"2" has no counterpart`, func(s *Scene) {
			s.Native.Machines[0].Annotations[machinev1.PriorityAnnotation] = "2"
		}},
		{"spec.drainTimeout", Lost, "differs from that of MachineSet", func(s *Scene) {
			s.Native.Machines[0].Spec.MachineConfiguration = &machinev1.MachineConfiguration{MachineDrainTimeout: hour}
		}},
		{
			"metadata.annotations[machine.sapcloud.io/cluster-api-autoscaler-node-group-min-size]", Kept,
			"becomes cluster.x-k8s.io/", deployment(func(d *machinev1.MachineDeployment) {
				d.Annotations[machinev1.NodeGroupMinSizeAnnotation] = "1"
			}),
		},
		{
			"metadata.annotations[autoscaler.gardener.cloud/max-node-provision-time]", Replaced, "upstream's reads",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Annotations["autoscaler.gardener.cloud/max-node-provision-time"] = "1h"
			}),
		},
		{
			"metadata.annotations[mcm.cluster.x-k8s.io/offered-capacity]", Replaced, "status.capacity",
			deployment(func(d *machinev1.MachineDeployment) { d.Annotations[machinev1.OfferedCapacityAnnotation] = "{}" }),
		},
		{
			"metadata.annotations[mcm.cluster.x-k8s.io/provider-id-form]", Replaced, "set again",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Annotations[machinev1.ProviderIDFormAnnotation] = machinev1.ProviderIDFormNode
			}),
		},
		{
			"metadata.annotations[node.machine.sapcloud.io/effective-creation-timeout]", Replaced, "nodeStartupTimeoutSeconds",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Annotations[machinev1.EffectiveCreationTimeoutAnnotation] = "1h"
			}),
		},
		{"spec.maxEvictRetries", Lost, "until the drain timeout", func(s *Scene) {
			s.Native.Machines[0].Spec.MachineConfiguration = &machinev1.MachineConfiguration{MaxEvictRetries: new(int32(3))}
		}},
		{"metadata.labels[force-drain]", Lost, "no pod by force", func(s *Scene) {
			s.Native.Machines[0].Labels[machinev1.ForceDrainLabel] = "True"
		}},
		{"metadata.finalizers[example.org/audit]", Lost, "somebody else's", deployment(func(d *machinev1.MachineDeployment) {
			d.Finalizers = append(d.Finalizers, "example.org/audit")
		})},
		{"metadata.ownerReferences", Lost, "does not belong to", deployment(func(d *machinev1.MachineDeployment) {
			d.OwnerReferences = []metav1.OwnerReference{{Kind: "Worker", Name: "w"}}
		})},
		{"spec.selector", Lost, "this MachineHealthCheck", func(s *Scene) {
			s.around.HealthChecks = []clusterv1.MachineHealthCheck{{Spec: clusterv1.MachineHealthCheckSpec{ClusterName: "shoot"}}}
		}},
		{"nodeTemplate.virtualCapacity", Lost, "virtual capacity", func(s *Scene) {
			s.Native.Classes["pool-class"].NodeTemplate = &machinev1.NodeTemplate{VirtualCapacity: corev1.ResourceList{"a/b": {}}}
		}},
	}
}

type fieldCase struct {
	field string
	level Level
	text  string
	set   func(*Scene)
}

func TestFields(t *testing.T) {
	t.Parallel()
	for _, c := range fieldCases() {
		t.Run(c.field+" "+string(c.level), func(t *testing.T) {
			t.Parallel()
			s := nativePool("pool", 2)
			around(s)
			c.set(s)
			p := s.Plan(toCluster())
			at := slices.IndexFunc(p.Findings, func(f Finding) bool {
				return f.Field == c.field && f.Level == c.level && strings.Contains(f.Text, c.text)
			})
			if at < 0 {
				t.Fatalf("want %s %s: %s, got %v", c.level, c.field, c.text, p.Findings)
			}
			lost := c.level == Lost
			blocks := func(o Options) bool {
				return slices.ContainsFunc(s.Plan(o).Blocked(), func(f Finding) bool { return f.Field == c.field })
			}
			o := toCluster()
			if blocks(o) != lost {
				t.Errorf("blocks %v, want %v", blocks(o), lost)
			}
			if o.Accept = []string{c.field, "spec.strategy.inPlaceUpdate"}; blocks(o) {
				t.Error("blocks although its loss is accepted")
			}
		})
	}
}
