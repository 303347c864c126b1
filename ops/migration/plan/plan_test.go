package plan

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
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

func TestAHealthyPoolCanBeMoved(t *testing.T) {
	t.Parallel()
	s := pools.NativePool("pool", 3)
	pools.Around(s)
	p := Of(s, pools.ToCluster())
	if blocked := p.Blocked(); len(blocked) > 0 {
		t.Errorf("blocked by %v", blocked)
	}
	for _, m := range p.Machines {
		if m.Verdict != VerdictKept || m.KubeletVersion != pools.TestVersion || m.ProviderID != "sim:///zone-a/i-"+m.Name ||
			m.ProviderIDForm != FormNode {
			t.Errorf("machine %+v", m)
		}
	}
}

// TestBadInput: what keeps a pool from being moved, what the plan calls it, and that
// it says what to do first.
func TestBadInput(t *testing.T) {
	t.Parallel()
	machine := func(change func(*machinev1.Machine)) func(*migration.PoolState) {
		return func(s *migration.PoolState) { change(&s.Native.Machines[0]) }
	}
	node := func(change func(*corev1.Node)) func(*migration.PoolState) {
		return func(s *migration.PoolState) { change(s.Nodes[s.Native.Machines[0].Labels[machinev1.NodeLabel]]) }
	}
	phase := func(p machinev1.MachinePhase) func(*migration.PoolState) {
		return machine(func(m *machinev1.Machine) { m.Status.CurrentStatus.Phase = p })
	}
	deployment := func(change func(*machinev1.MachineDeployment)) func(*migration.PoolState) {
		return func(s *migration.PoolState) {
			change(s.Native.Deployment)
			s.Around.Deployments[0] = *s.Native.Deployment
		}
	}
	for _, c := range []struct {
		reason string
		spoil  func(*migration.PoolState)
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
			m.DeletionTimestamp = &pools.TestBirth
		}), "is being deleted"},
		{"preservation has no counterpart", machine(func(m *machinev1.Machine) {
			m.Status.CurrentStatus.PreserveExpiryTime = &pools.TestBirth
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
		{"nobody knows which API is authoritative", machine(func(m *machinev1.Machine) {
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
		{"one VM cannot be two machines'", func(s *migration.PoolState) {
			s.Native.Machines[1].Labels[machinev1.NodeLabel] = s.Native.Machines[0].Labels[machinev1.NodeLabel]
			s.Native.Machines[1].Spec.ProviderID = s.Native.Machines[0].Spec.ProviderID
		}, "has the same VM"},
		{"the Node is gone", func(s *migration.PoolState) {
			delete(s.Nodes, s.Native.Machines[0].Labels[machinev1.NodeLabel])
		}, "Node is not there"},
		{"machines of another version are never up to date", node(func(n *corev1.Node) {
			n.Status.NodeInfo.KubeletVersion = "v1.35.0"
		}), "different versions: v1.35.0 (1), v1.36.3 (2)"},
		{"the webhook refuses such versions", node(func(n *corev1.Node) {
			n.Status.NodeInfo.KubeletVersion = "devel"
		}), "no semantic version"},
		{"the class is needed to delete the VM", func(s *migration.PoolState) { clear(s.Native.Classes) }, "does not exist"},
		{"two templates", func(s *migration.PoolState) {
			old := s.Native.Deployment.Spec.Template.DeepCopy()
			old.Spec.Class.Name = "old"
			pools.AddSet(s, "pool-old", "99", *old, 1)
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
		{"the name does not fit into a label", func(s *migration.PoolState) {
			s.Native.Deployment.Name = strings.Repeat("x", 64)
		}, "metadata.name"},
		{"two pools select the same machines", func(s *migration.PoolState) {
			other := pools.NativePool("other", 1).Native.Deployment
			other.Spec.Selector.MatchLabels = map[string]string{"team": "x"}
			s.Native.Deployment.Spec.Template.Labels["team"] = "x"
			s.Native.Sets[0].Spec.Template.Labels["team"] = "x"
			s.Around.Deployments = append(s.Around.Deployments, *other)
		}, "select each other's machines"},
		{"the other API asks the Secret's own namespace", func(s *migration.PoolState) {
			s.Native.Classes["pool-class"].SecretRef.Namespace = "elsewhere"
			key := client.ObjectKey{Namespace: "elsewhere", Name: "cloud"}
			s.Around.Secrets[key] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "elsewhere",
				Name:      "cloud",
			}}
		}, "does not allow this one"},
		{"two managers must not work on the same machines", func(s *migration.PoolState) {
			s.Around.Leases = []coordinationv1.Lease{{
				ObjectMeta: metav1.ObjectMeta{Namespace: pools.TestNamespace, Name: machinev1.LeaseMachineController},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: new("mcm_1"), LeaseDurationSeconds: new(int32(15)),
					RenewTime: new(metav1.NewMicroTime(time.Now())),
				},
			}}
		}, "no manager of this project"},
		{"somebody else's object has the name", func(s *migration.PoolState) {
			s.Around.ClusterDeployments = []clusterv1.MachineDeployment{{ObjectMeta: metav1.ObjectMeta{
				Namespace: pools.TestNamespace,
				Name:      "pool",
			}}}
		}, "was not made from the native"},
		{
			"Cluster API is not there", func(s *migration.PoolState) { s.Around.Unserved = []string{"Cluster"} },
			"does not know this kind",
		},
		{"nobody would look after the machines", func(s *migration.PoolState) {
			s.Cluster.Cluster = &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: new(true)}}
		}, "it is paused"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			s := pools.NativePool("pool", 3)
			pools.Around(s)
			c.spoil(s)
			blocked := Of(s, pools.ToCluster()).Blocked()
			at := slices.IndexFunc(blocked, func(f migration.Finding) bool {
				return strings.Contains(f.Text+" "+f.Field,
					c.want)
			})
			if at < 0 {
				t.Fatalf("want it blocked by %q, got %v", c.want, blocked)
			}
			if blocked[at].Remedy == "" {
				t.Errorf("%s does not say what to do first", blocked[at])
			}
		})
	}
}

// TestASharedClassIsHandled: both APIs keep their own finalizer on it.
func TestASharedClassIsHandled(t *testing.T) {
	t.Parallel()
	s := pools.NativePool("pool", 1)
	other := pools.NativePool("stays", 1).Native.Deployment
	other.Spec.Template.Spec.Class.Name = "pool-class"
	pools.Around(s).Deployments = append(s.Around.Deployments, *other)
	p := Of(s, pools.ToCluster())
	if len(p.Blocked()) > 0 || !slices.ContainsFunc(p.Findings, func(f migration.Finding) bool {
		return f.Level == migration.Kept && strings.Contains(f.Text, "machinedeployment/stays") &&
			strings.Contains(f.Text, "finalizer")
	}) {
		t.Errorf("want the other user named and nothing blocked, got %v", p.Findings)
	}
}

// fieldCases are fields that do not mean the same on the other API. docs/migration.md
// has a row for each.
func fieldCases() []fieldCase {
	deployment := func(change func(*machinev1.MachineDeployment)) func(*migration.PoolState) {
		return func(s *migration.PoolState) { change(s.Native.Deployment) }
	}
	config := func(change func(*machinev1.MachineConfiguration)) func(*migration.PoolState) {
		return deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.Template.Spec.MachineConfiguration = &machinev1.MachineConfiguration{}
			change(d.Spec.Template.Spec.MachineConfiguration)
		})
	}
	hour := &metav1.Duration{Duration: time.Hour}
	return []fieldCase{
		{
			"spec.strategy.type", migration.Lost, "InPlaceUpdate becomes OnDelete",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy = machinev1.MachineDeploymentStrategy{
					Type: machinev1.InPlaceUpdateStrategyType,
					InPlaceUpdate: &machinev1.InPlaceUpdateMachineDeployment{
						UpdateConfiguration: d.Spec.Strategy.RollingUpdate.UpdateConfiguration,
					},
				}
			}),
		},
		{
			"spec.strategy.type", migration.Lost, "Recreate becomes RollingUpdate",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy.Type = machinev1.RecreateStrategyType
			}),
		},
		{
			"spec.strategy.rollingUpdate", migration.Replaced, "maxUnavailable 1",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Spec.Strategy.RollingUpdate.MaxSurge, d.Spec.Strategy.RollingUpdate.MaxUnavailable = new(
					intstr.FromInt32(0)), new(intstr.FromInt32(0))
			}),
		},
		{"spec.minReadySeconds", migration.Replaced, "MCM ignores it", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.MinReadySeconds = 5
		})},
		{
			"spec.paused", migration.Kept, "no rollouts",
			deployment(func(d *machinev1.MachineDeployment) { d.Spec.Paused = true }),
		},
		{"spec.progressDeadlineSeconds", migration.Lost, "no deadline", deployment(func(d *machinev1.MachineDeployment) {
			d.Spec.ProgressDeadlineSeconds = new(int32(9))
		})},
		{
			"spec.revisionHistoryLimit", migration.Lost, "deletes old MachineSets",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Spec.RevisionHistoryLimit = new(int32(9))
			}),
		},
		{
			"spec.autoPreserveFailedMachineMax", migration.Lost, "keeps no failed machines",
			deployment(func(d *machinev1.MachineDeployment) { d.Spec.AutoPreserveFailedMachineMax = 1 }),
		},
		{
			"spec.template.spec.drainTimeout", migration.Replaced, "nodeDrainTimeoutSeconds 3600",
			config(func(c *machinev1.MachineConfiguration) { c.MachineDrainTimeout = hour }),
		},
		{
			"spec.template.spec.healthTimeout", migration.Replaced, "timeoutSeconds 3600",
			config(func(c *machinev1.MachineConfiguration) {
				c.MachineHealthTimeout = hour
			}),
		},
		{
			"spec.template.spec.creationTimeout", migration.Replaced, "nodeStartupTimeoutSeconds 3600",
			config(func(c *machinev1.MachineConfiguration) { c.MachineCreationTimeout = hour }),
		},
		{"spec.template.spec.nodeConditions", migration.Replaced, "Bad", config(func(c *machinev1.MachineConfiguration) {
			c.NodeConditions = new("Bad")
		})},
		{
			"spec.template.spec.disableHealthTimeout", migration.Kept, "MachineHealthCheck",
			config(func(c *machinev1.MachineConfiguration) { c.DisableHealthTimeout = new(true) }),
		},
		{
			"spec.template.spec.maxEvictRetries", migration.Lost, "until the drain timeout",
			config(func(c *machinev1.MachineConfiguration) { c.MaxEvictRetries = new(int32(3)) }),
		},
		{
			"spec.template.spec.machinePreserveTimeout", migration.Lost, "preserves no machines",
			config(func(c *machinev1.MachineConfiguration) { c.MachinePreserveTimeout = hour }),
		},
		{
			"spec.template.spec.inPlaceUpdateTimeout", migration.Replaced, "no effect",
			config(func(c *machinev1.MachineConfiguration) {
				c.MachineInPlaceUpdateTimeout = hour
			}),
		},
		{
			"spec.template.spec.nodeTemplate", migration.Replaced, "neither a label",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Spec.Template.Spec.NodeTemplateSpec.Spec.PodCIDR = "10.0.0.0/24"
			}),
		},
		{
			"spec.template.metadata", migration.Lost, "only labels and annotations",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Spec.Template.Finalizers = []string{"a/b"}
			}),
		},
		{
			"metadata.annotations[machinepriority.machine.sapcloud.io]", migration.Replaced, "delete-machine",
			func(s *migration.PoolState) {
				s.Native.Machines[0].Annotations[machinev1.PriorityAnnotation] = "1"
			},
		},
		{
			"metadata.annotations[machinepriority.machine.sapcloud.io]", migration.Lost, `"2" has no counterpart`,
			func(s *migration.PoolState) {
				s.Native.Machines[0].Annotations[machinev1.PriorityAnnotation] = "2"
			},
		},
		{"spec.drainTimeout", migration.Lost, "differs from that of MachineSet", func(s *migration.PoolState) {
			s.Native.Machines[0].Spec.MachineConfiguration = &machinev1.MachineConfiguration{MachineDrainTimeout: hour}
		}},
		{
			"metadata.annotations[machine.sapcloud.io/cluster-api-autoscaler-node-group-min-size]", migration.Kept,
			"becomes cluster.x-k8s.io/", deployment(func(d *machinev1.MachineDeployment) {
				d.Annotations[machinev1.NodeGroupMinSizeAnnotation] = "1"
			}),
		},
		{
			"metadata.annotations[autoscaler.gardener.cloud/max-node-provision-time]", migration.Replaced, "upstream's reads",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Annotations["autoscaler.gardener.cloud/max-node-provision-time"] = "1h"
			}),
		},
		{
			"metadata.annotations[mcm.cluster.x-k8s.io/offered-capacity]", migration.Replaced, "status.capacity",
			deployment(func(d *machinev1.MachineDeployment) { d.Annotations[machinev1.OfferedCapacityAnnotation] = "{}" }),
		},
		{
			"metadata.annotations[mcm.cluster.x-k8s.io/provider-id-form]", migration.Replaced, "set again",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Annotations[machinev1.ProviderIDFormAnnotation] = machinev1.ProviderIDFormNode
			}),
		},
		{
			"metadata.annotations[node.machine.sapcloud.io/effective-creation-timeout]", migration.Replaced,
			"nodeStartupTimeoutSeconds",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Annotations[machinev1.EffectiveCreationTimeoutAnnotation] = "1h"
			}),
		},
		{"spec.maxEvictRetries", migration.Lost, "until the drain timeout", func(s *migration.PoolState) {
			s.Native.Machines[0].Spec.MachineConfiguration = &machinev1.MachineConfiguration{MaxEvictRetries: new(int32(3))}
		}},
		{"metadata.labels[force-drain]", migration.Lost, "no pod by force", func(s *migration.PoolState) {
			s.Native.Machines[0].Labels[machinev1.ForceDrainLabel] = "True"
		}},
		{
			"metadata.finalizers[example.org/audit]", migration.Lost, "somebody else's",
			deployment(func(d *machinev1.MachineDeployment) {
				d.Finalizers = append(d.Finalizers, "example.org/audit")
			}),
		},
		{"metadata.ownerReferences", migration.Lost, "does not belong to", deployment(func(d *machinev1.MachineDeployment) {
			d.OwnerReferences = []metav1.OwnerReference{{Kind: "Worker", Name: "w"}}
		})},
		{"spec.selector", migration.Lost, "this MachineHealthCheck", func(s *migration.PoolState) {
			s.Around.HealthChecks = []clusterv1.MachineHealthCheck{{Spec: clusterv1.MachineHealthCheckSpec{
				ClusterName: "shoot",
			}}}
		}},
		{"nodeTemplate.virtualCapacity", migration.Lost, "virtual capacity", func(s *migration.PoolState) {
			s.Native.Classes["pool-class"].NodeTemplate = &machinev1.NodeTemplate{VirtualCapacity: corev1.ResourceList{
				"a/b": {},
			}}
		}},
	}
}
