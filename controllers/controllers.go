// Package controllers puts the controllers together.
package controllers

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	classes "github.com/capmcm/cluster-api-provider-mcm/controllers/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/evidence"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/hold"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/joining"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machine"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machinedeployment"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/machineset"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/node"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/orphan"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

// Names of the components that Events come from; the first two are MCM's.
const (
	managerComponent    = "machine-controller-manager"
	machineSetComponent = "machineset-controller"
	machineComponent    = "machine-controller"
)

// Target is a target cluster, for those who put Deps together.
type Target = target.Cluster

// Deps are what the controllers need; all are required unless said otherwise.
type Deps struct {
	Client    client.Client // control cluster, reads from a cache
	Live      client.Reader // control cluster, reads from the API server
	Target    *Target       // nil: there are no nodes
	Namespace string        // of the native kinds; empty is all
	Clouds    *cloud.Registry
	Clock     clock.PassiveClock
	Fence     *fence.Fence // knows for how long a former leader's requests may take effect
	Rand      io.Reader    // makes bootstrap tokens
	// Events returns the recorder of a component.
	Events func(component string) record.EventRecorder
	// Workers is how many reconciles of a controller run at a time.
	Workers func(controller string) int
	// Durations observes how long machines took; may be nil.
	Durations machine.Durations
	// Metrics gets the metrics that controllers have of their own; nil for none.
	Metrics prometheus.Registerer
	// OnFrozenFunc is called once with what reports whether machines are left alone
	// because Machines or Nodes cannot be listed; may be nil.
	OnFrozenFunc func(frozen func() bool)
	// Served reports whether the API server serves a kind. The collectors of orphans
	// look for owners of an API group that is served although its controllers run
	// elsewhere. Nil: only the groups that run here.
	Served func(Kind) bool
	// Clusters are the connections to the workload clusters of Cluster API; nil if
	// only the native API is served.
	Clusters clustercache.ClusterCache
	// WatchFilter is the value of Cluster API's label that objects must have; empty
	// is no filter.
	WatchFilter string
	Options     Options
}

// Options are the flags, as far as controllers go.
type Options struct {
	Machine   machine.Options
	APIServer apiserver.Options
	Orphans   orphan.Options
	// SafetyUp, SafetyDown and OvershootPeriod bound how many machines a set has.
	SafetyUp, SafetyDown int32
	OvershootPeriod      time.Duration
	// AnnotateDuringRollout keeps autoscalers from removing nodes during rollouts.
	AnnotateDuringRollout bool
	// CreationTimeoutGrowthPercent is by how much the creation timeout of a
	// MachineDeployment grows after machines had to be replaced in ReplaceCycles cycles
	// because they did not join in time. If either is 0, it does not.
	CreationTimeoutGrowthPercent, ReplaceCycles int
	// PauseFailingRollouts pauses the rolling update of a MachineDeployment after
	// ReplaceCycles cycles in which no new machine joined.
	PauseFailingRollouts bool
	// ConsoleEvidence has the consoles of machines that did not join read and kept.
	ConsoleEvidence bool
}

// A Controller is what can be run on its own.
type Controller struct {
	Name  string   // of its queue in MCM, for --controllers, logs and metrics
	Group APIGroup // whose kinds must all be served
	Why   string   // what it does, in a few words
	add   func(s *setup) error
}

// All is the one list of controllers.
func All() []Controller {
	return []Controller{
		{"machinesafetyapiserver", Native, "freezes machines while an API server does not answer", addAPIServer},
		{"machineclass", Native, "protects classes and Secrets that machines use", addMachineClass},
		{"machine", Native, "creates, monitors, drains and deletes machines and their VMs", addMachine},
		{"machineset", Native, "keeps the number of machines of a MachineSet", addMachineSet},
		{"machinedeployment", Native, "rolls out changes of a MachineDeployment", addMachineDeployment},
		{"node", Native, "syncs nodes with their machines", addNode},
		{"machinesafetyorphanvms", Native, "removes orphan VMs", addOrphans},
		{
			"mcmcluster", Infrastructure, "reports the failure domains of a Cluster, and protects it while it has machines",
			addMCMCluster,
		},
		{"mcmmachine", Infrastructure, "creates, monitors and deletes the VMs of Cluster API's machines", addMCMMachine},
		{"mcmmachinetemplate", Infrastructure, "reports the capacity of a template's nodes", addMCMMachineTemplate},
		{"mcmremediation", Infrastructure, "reboots VMs of unhealthy machines before they are replaced", addMCMRemediation},
		{"mcmorphanvms", Infrastructure, "removes orphan VMs of Clusters", addMCMOrphans},
		{"mcmclass", Infrastructure, "protects classes and Secrets that machines of Cluster API use", addMCMClass},
		{"mcmconfig", Bootstrap, "creates the bootstrap data of Cluster API's machines", addMCMConfig},
		{
			"mcmexternalcontrolplane", ControlPlane, "connects to a control plane that somebody else runs",
			addMCMExternalControlPlane,
		},
	}
}

// setup is what the controllers share while they are put together.
type setup struct {
	Deps
	mgr     ctrl.Manager
	running []APIGroup
	classes *class.Resolver
	frozen  func() bool
	cause   func() string // of that
	// thawedAt says when machines were last left alone because of that.
	thawedAt func() time.Time
	// visits are the passes over nodes, which the answer to a Machine's hold waits for.
	visits *hold.Visits
	// brake decides how many machines are replaced or deleted at once.
	brake *brake.Brake
	// fallback is what is known of exhausted classes.
	fallback *fallback.Memory
	// evidence keeps consoles of machines that did not join; nil: none.
	evidence *evidence.Keeper
}

// Setup adds the controllers of these names to mgr, whose caches get the indexes
// that they need. It is called once for a manager.
func Setup(ctx context.Context, mgr ctrl.Manager, d Deps, which []string) error {
	if err := index.Setup(ctx, mgr.GetFieldIndexer(), controlIndexes(APIGroupsOf(which), d.served)); err != nil {
		return fmt.Errorf("index the control cluster: %w", err)
	}
	if d.Target != nil && d.Target.Cache != nil {
		if err := index.Setup(ctx, d.Target.Cache, append(index.Target(), drain.Indexes()...)); err != nil {
			return fmt.Errorf("index the target cluster: %w", err)
		}
	}
	s := &setup{
		Deps: d, mgr: mgr, running: APIGroupsOf(which), classes: class.New(d.Clouds), frozen: func() bool {
			return false
		}, visits: &hold.Visits{}, brake: d.Options.Machine.NewBrake(d.Client, d.Target, d.Clock),
		fallback: fallback.NewMemory(d.Clock, d.Options.Machine.ResourceExhaustedRetry),
	}
	if d.Options.ConsoleEvidence {
		s.evidence = evidence.New(evidence.Deps{Client: d.Client, Live: d.Live, Clock: d.Clock})
	}
	for _, c := range All() {
		if !slices.Contains(which, c.Name) {
			continue
		}
		if err := c.add(s); err != nil {
			return fmt.Errorf("set up controller %s: %w", c.Name, err)
		}
	}
	if d.OnFrozenFunc != nil {
		d.OnFrozenFunc(s.frozen)
	}
	return nil
}

// WorkloadIndexes are the indexes of the caches of workload clusters.
func WorkloadIndexes() []index.Index { return index.Nodes() }

// addAPIServer comes first: others ask it whether they are frozen.
func addAPIServer(s *setup) error {
	c := apiserver.New(apiserver.Deps{
		Client: s.Client, Live: s.Live, Target: s.Target, Namespace: s.Namespace,
		Clock: s.Clock, Events: s.Events(machineComponent), Options: s.Options.APIServer,
	})
	s.frozen, s.cause, s.thawedAt = c.Frozen, c.Cause, c.ThawedAt
	return c.SetupWithManager(s.mgr)
}

func addMachineClass(s *setup) error {
	return classes.New(classes.Deps{
		Client: s.Client, Live: s.Live, Classes: s.classes, Events: s.Events(machineComponent),
	}).SetupWithManager(s.mgr, s.Workers("machineclass"))
}

func addMachine(s *setup) error {
	options := s.Options.Machine
	options.RecordJoins = s.Options.ReplaceCycles > 0 &&
		(s.Options.CreationTimeoutGrowthPercent > 0 || s.Options.PauseFailingRollouts)
	c := machine.New(machine.Deps{
		Namespace: s.Namespace, Client: s.Client, Live: s.Live, Target: s.Target, Clouds: s.Clouds, Clock: s.Clock,
		Fence:  s.Fence,
		Events: s.Events(machineComponent), Options: options, Frozen: s.frozen, FreezeCause: s.cause,
		ThawedAt: s.thawedAt, Rand: s.Rand, Durations: s.Durations, Visits: s.visits, Brake: s.brake,
		Fallback: s.fallback, Evidence: s.evidence,
	})
	if err := s.registerMetrics(c.Collectors()); err != nil {
		return err
	}
	return c.SetupWithManager(s.mgr, s.Workers("machine"))
}

// registerMetrics registers the metrics that a controller has of its own.
func (s *setup) registerMetrics(all []prometheus.Collector) error {
	if s.Metrics == nil {
		return nil
	}
	for _, m := range all {
		if err := s.Metrics.Register(m); err != nil {
			return err
		}
	}
	return nil
}

func addMachineSet(s *setup) error {
	if s.Metrics != nil {
		if err := s.Metrics.Register(machineset.StaleMachines); err != nil {
			return err
		}
	}
	return machineset.New(machineset.Deps{
		Client: s.Client, Live: s.Live, Target: s.Target, Clock: s.Clock, Fence: s.Fence,
		Events: s.Events(machineSetComponent), SafetyEvents: s.Events(managerComponent),
		SafetyUp: s.Options.SafetyUp, SafetyDown: s.Options.SafetyDown, OvershootPeriod: s.Options.OvershootPeriod,
		Fallback: s.fallback, Resolve: class.New(s.Clouds).Resolve,
	}).SetupWithManager(s.mgr, s.Workers("machineset"))
}

func addMachineDeployment(s *setup) error {
	return machinedeployment.New(machinedeployment.Deps{
		Client: s.Client, Live: s.Live, Target: s.Target, Clock: s.Clock, Events: s.Events(managerComponent),
		AnnotateDuringRollout: s.Options.AnnotateDuringRollout, Fallback: s.fallback,
		Joining: joining.Policy{
			Timeout:       s.Options.Machine.CreationTimeout,
			GrowthPercent: s.Options.CreationTimeoutGrowthPercent, Cycles: s.Options.ReplaceCycles,
		},
		PauseFailing: s.Options.PauseFailingRollouts,
	}).SetupWithManager(s.mgr, s.Workers("machinedeployment"))
}

func addNode(s *setup) error {
	c := node.New(node.Deps{
		Client: s.Client, Target: s.Target, Clock: s.Clock, Events: s.Events(machineComponent),
		MachineCreationTimeout: s.Options.Machine.CreationTimeout, Visits: s.visits,
		AnnotateDuringRollout: s.Options.AnnotateDuringRollout,
		Brake:                 s.brake,
	})
	if err := s.registerMetrics(c.Collectors()); err != nil {
		return err
	}
	return c.SetupWithManager(s.mgr, s.Workers("node"))
}
