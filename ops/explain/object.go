package explain

import (
	"slices"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

// API is one of the two APIs for machines.
type API string

// The APIs.
const (
	Native     API = "native"
	ClusterAPI API = "clusterapi"
)

// Kinds that both APIs have, and those of Cluster API alone.
const (
	KindDeployment   = "MachineDeployment"
	KindSet          = "MachineSet"
	KindMachine      = "Machine"
	KindCluster      = "Cluster"
	KindMCMCluster   = "MCMCluster"
	KindMCMMachine   = "MCMMachine"
	KindMCMConfig    = "MCMConfig"
	KindControlPlane = "MCMExternalControlPlane"
	KindClass        = "MachineClass"
	KindNode         = "Node"
)

// Ref names an object.
type Ref struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String is the object as kubectl names it, e.g. machineset.machine.sapcloud.io/workers.
func (r Ref) String() string {
	group, _, grouped := strings.Cut(r.APIVersion, "/")
	if !grouped {
		return strings.ToLower(r.Kind) + "/" + r.Name
	}
	return strings.ToLower(r.Kind) + "." + group + "/" + r.Name
}

// Condition is a condition of an object of either API.
type Condition struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string
	Since   time.Time
}

// Object is an object of either API, with what an explanation needs of it.
type Object struct {
	Ref
	API             API
	UID, Owner      types.UID // Owner controls it; empty: none
	CopiedFrom      types.UID // the object of the other API that a migration made it from; empty: none
	Created         time.Time
	Deleting        *time.Time
	Labels          map[string]string
	Conditions      []Condition
	Phase           string // of a machine
	PhaseSince      time.Time
	Desired         int32 // machines of a pool, and how many of them there are
	Ready           int32
	Updated         int32
	Class           string // MachineClass; empty: not known
	Pool            string // MachineDeployment of a native Machine
	Cluster         string
	Node            string // the name that the node has or will have
	ProviderID      string
	Joined          bool   // a node is recorded in the status
	OwnerID         string // of a machine: what its trace, and of a native one its bootstrap token, follow from
	Attempt         int
	Operation       Operation
	Credentials     Ref // Secrets of a MachineClass; no names: none
	Boot            Ref
	Creation, Drain *time.Duration // timeouts of its own; nil: the manager's flags
	Health          *time.Duration
	// DrainBegan and DetachBegan are when Cluster API began to drain the node of a Machine, and to
	// wait for its volumes; zero: it has not.
	DrainBegan, DetachBegan time.Time
}

// Operation is status.lastOperation of a native Machine.
type Operation struct {
	Type, State, Code, Description string
	Since                          time.Time
}

// condition returns the condition of that type; nil if there is none, or no object.
func (o *Object) condition(kind string) *Condition {
	if o == nil {
		return nil
	}
	for i := range o.Conditions {
		if o.Conditions[i].Type == kind {
			return &o.Conditions[i]
		}
	}
	return nil
}

// Facts are what was read, at one time.
type Facts struct {
	Now      time.Time
	Objects  []*Object
	Nodes    []corev1.Node
	Events   []corev1.Event
	Requests []certificatesv1.CertificateSigningRequest
	Tokens   map[string]Token // bootstrap tokens by ID; see TokensRead
	// TokensRead has the IDs that were looked up, so that one without a Token does not exist.
	TokensRead map[string]bool
	// Consoles are what is kept of machines that did not join, by namespace/name of the Secret.
	Consoles map[string][]console.Failure
	// Unread is what could not be read, e.g. because the user may not: a finding that
	// would need it is left out.
	Unread []string
	// TargetError is why the Nodes cannot be read; empty: they were.
	TargetError string

	index *index // made with the first question; Facts do not change after that
}

// index finds objects without going through all of them: a fleet has ten thousand.
type index struct {
	byUID   map[types.UID]*Object
	byOwner map[types.UID][]*Object
	copies  map[types.UID]*Object // by what a migration made them from
	byName  map[string][]*Object  // by kind and name
	nodes   map[string]*corev1.Node
	nodeIDs map[string][]*corev1.Node // by the last part of their providerIDs
}

// indexed returns the index, which is made once.
func (f *Facts) indexed() *index {
	if f.index != nil {
		return f.index
	}
	f.index = &index{
		byUID: map[types.UID]*Object{}, byOwner: map[types.UID][]*Object{}, byName: map[string][]*Object{},
		copies: map[types.UID]*Object{}, nodes: map[string]*corev1.Node{}, nodeIDs: map[string][]*corev1.Node{},
	}
	for _, o := range f.Objects {
		if o.UID != "" {
			f.index.byUID[o.UID] = o
		}
		if o.CopiedFrom != "" {
			f.index.copies[o.CopiedFrom] = o
		}
	}
	for _, o := range f.Objects {
		if f.index.ownsItself(o) {
			o.Owner = "" // so that every way up or down has an end
		}
		if o.Owner != "" {
			f.index.byOwner[o.Owner] = append(f.index.byOwner[o.Owner], o)
		}
		f.index.byName[o.Kind+"/"+o.Name] = append(f.index.byName[o.Kind+"/"+o.Name], o)
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		f.index.nodes[n.Name] = n
		f.index.nodeIDs[last(n.Spec.ProviderID)] = append(f.index.nodeIDs[last(n.Spec.ProviderID)], n)
	}
	return f.index
}

// ownsItself reports whether the owners of o lead back to it, which no API server refuses.
func (x *index) ownsItself(o *Object) bool {
	seen := map[types.UID]bool{}
	for owner := x.byUID[o.Owner]; owner != nil && !seen[owner.UID]; owner = x.byUID[owner.Owner] {
		if owner == o {
			return true
		}
		seen[owner.UID] = true
	}
	return false
}

// Token is a bootstrap token, without its secret part.
type Token struct {
	Expires time.Time // zero: never
}

// Find returns the objects of a kind and name; both APIs may have one.
func (f *Facts) Find(kind, name string) []*Object { return f.indexed().byName[kind+"/"+name] }

// children are the objects that o controls.
func (f *Facts) children(o *Object) []*Object { return f.indexed().byOwner[o.UID] }

// owner is the object that controls o; nil if there is none.
func (f *Facts) owner(o *Object) *Object { return f.indexed().byUID[o.Owner] }

// child is the first object of a kind that o controls; nil if there is none.
func (f *Facts) child(o *Object, kind string) *Object {
	for _, other := range f.children(o) {
		if other.Kind == kind {
			return other
		}
	}
	return nil
}

// named is the object of a kind in a namespace; nil if there is none.
func (f *Facts) named(kind, namespace, name string) *Object {
	for _, o := range f.Find(kind, name) {
		if o.Namespace == namespace {
			return o
		}
	}
	return nil
}

// node is the Node of a machine; nil if there is none. On Cluster API one of its name and another
// providerID belongs to another cluster.
func (f *Facts) node(o *Object) *corev1.Node {
	n := f.indexed().nodes[o.Node]
	if n == nil || o.API == ClusterAPI && n.Spec.ProviderID != o.ProviderID {
		return nil
	}
	return n
}

// MachinesOfNode returns the Machines whose node has that name.
func (f *Facts) MachinesOfNode(name string) []*Object {
	var found []*Object
	for _, o := range f.Objects {
		if o.Kind == KindMachine && o.Node == name && name != "" {
			found = append(found, o)
		}
	}
	return found
}

// Condition types that stand for what a native object shows elsewhere than in its conditions.
const (
	conditionHeld   = "Held"
	conditionPaused = "Paused"
	conditionFrozen = "Frozen"
)

// OfMachine is a Machine of the native API.
func OfMachine(m *machinev1.Machine) *Object {
	o := object(Native, machinev1.GroupVersion, KindMachine, m)
	o.Conditions = append(o.Conditions, progress(m.Status.Progress)...)
	o.Phase, o.PhaseSince = string(m.Status.CurrentStatus.Phase), m.Status.CurrentStatus.LastUpdateTime.Time
	o.Class, o.ProviderID = m.Spec.Class.Name, m.Spec.ProviderID
	o.Pool, o.Node = m.Labels[machinev1.NameLabel], m.Labels[machinev1.NodeLabel]
	if m.Status.NodeRef != nil {
		o.Node, o.Joined = m.Status.NodeRef.Name, true
	}
	o.Joined = o.Joined || m.Status.CurrentStatus.Phase == machinev1.MachineRunning
	o.OwnerID, o.Attempt = machinev1.OwnerID(m), 1
	if n, err := strconv.Atoi(m.Annotations[machinev1.CreateAttemptAnnotation]); err == nil {
		o.Attempt = max(1, n)
	}
	op := m.Status.LastOperation
	o.Operation = Operation{
		Type: string(op.Type), State: string(op.State), Code: op.ErrorCode, Description: op.Description,
		Since: op.LastUpdateTime.Time,
	}
	if c := m.Spec.MachineConfiguration; c != nil {
		o.Creation, o.Drain, o.Health = timeout(c.MachineCreationTimeout), timeout(c.MachineDrainTimeout),
			timeout(c.MachineHealthTimeout)
	}
	if d, err := time.ParseDuration(m.Annotations[machinev1.EffectiveCreationTimeoutAnnotation]); err == nil {
		o.Creation = &d
	}
	return o
}

// OfMachineSet is a MachineSet of the native API.
func OfMachineSet(s *machinev1.MachineSet) *Object {
	o := object(Native, machinev1.GroupVersion, KindSet, s)
	o.Conditions = append(o.Conditions, progress(s.Status.Progress)...)
	for _, c := range s.Status.Conditions {
		o.Conditions = append(o.Conditions, Condition{
			Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			Since: c.LastTransitionTime.Time,
		})
	}
	o.Desired, o.Ready, o.Updated = s.Spec.Replicas, s.Status.AvailableReplicas, s.Spec.Replicas
	o.Class = s.Spec.Template.Spec.Class.Name
	return o
}

// OfMachineDeployment is a MachineDeployment of the native API.
func OfMachineDeployment(d *machinev1.MachineDeployment) *Object {
	o := object(Native, machinev1.GroupVersion, KindDeployment, d)
	if d.Spec.Paused {
		o.Conditions = append(o.Conditions, Condition{
			Type: conditionPaused, Status: metav1.ConditionTrue, Reason: machinev1.ReasonDeploymentPaused,
			Message: "spec.paused is true",
		})
	}
	o.Conditions = append(o.Conditions, progress(d.Status.Progress)...)
	for _, c := range d.Status.Conditions {
		o.Conditions = append(o.Conditions, Condition{
			Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			Since: c.LastTransitionTime.Time,
		})
	}
	o.Desired, o.Ready, o.Updated = d.Spec.Replicas, d.Status.AvailableReplicas, d.Status.UpdatedReplicas
	o.Class, o.Pool = d.Spec.Template.Spec.Class.Name, d.Name
	return o
}

// OfMachineClass is a MachineClass. Of its Secrets only the names are read.
func OfMachineClass(c *machinev1.MachineClass) *Object {
	o := object(Native, machinev1.GroupVersion, KindClass, c)
	o.Class = c.Name
	if r := c.SecretRef; r != nil {
		o.Boot = Ref{Namespace: r.Namespace, Name: r.Name}
	}
	if r := c.CredentialsSecretRef; r != nil {
		o.Credentials = Ref{Namespace: r.Namespace, Name: r.Name}
	}
	return o
}

// object has what all kinds have. A hold for migration is shown as a condition.
func object(api API, group schema.GroupVersion, kind string, m metav1.Object) *Object {
	o := &Object{
		Ref: Ref{APIVersion: group.String(), Kind: kind, Namespace: m.GetNamespace(), Name: m.GetName()},
		API: api, UID: m.GetUID(), Created: m.GetCreationTimestamp().Time, Labels: m.GetLabels(),
	}
	if t := m.GetDeletionTimestamp(); t != nil {
		o.Deleting = &t.Time
	}
	if owner := metav1.GetControllerOf(m); owner != nil {
		o.Owner = owner.UID
	} else if owners := m.GetOwnerReferences(); len(owners) > 0 {
		o.Owner = owners[0].UID
	}
	if parts := strings.Split(m.GetAnnotations()[machinev1.MigratedFromAnnotation], "/"); len(parts) == 3 {
		o.CopiedFrom = types.UID(parts[2])
	}
	if machinev1.Held(m) {
		since, _ := time.Parse(time.RFC3339, m.GetAnnotations()[machinev1.MigrationHeldSinceAnnotation])
		o.Conditions = append(o.Conditions, Condition{
			Type: conditionHeld, Status: metav1.ConditionTrue, Reason: machinev1.ReasonHeld, Since: since,
			Message: "annotation " + machinev1.MigrationHoldAnnotation + " is set",
		})
	}
	return o
}

func progress(p *machinev1.Progress) []Condition {
	if p == nil {
		return nil
	}
	return conditions(p.Conditions)
}

func conditions(all []metav1.Condition) []Condition {
	out := make([]Condition, 0, len(all))
	for _, c := range all {
		out = append(out, Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: strings.TrimSpace(c.Message),
			Since: c.LastTransitionTime.Time,
		})
	}
	return out
}

func timeout(d *metav1.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return &d.Duration
}

// reasonPaused is Cluster API's reason of the condition Paused.
const reasonPaused = clusterv1.PausedReason

// OfCluster is a Cluster of Cluster API.
func OfCluster(c *clusterv1.Cluster) *Object {
	o := object(ClusterAPI, clusterv1.GroupVersion, KindCluster, c)
	o.Conditions, o.Cluster = append(o.Conditions, conditions(c.Status.Conditions)...), c.Name
	if ptr.Deref(c.Spec.Paused, false) {
		o.pause("spec.paused of Cluster " + c.Name + " is true")
	}
	return o
}

// OfCAPIDeployment is a MachineDeployment of Cluster API.
func OfCAPIDeployment(d *clusterv1.MachineDeployment) *Object {
	o := ofCluster(KindDeployment, d, d.Spec.ClusterName, d.Status.Conditions)
	o.Desired, o.Ready = ptr.Deref(d.Spec.Replicas, 1), ptr.Deref(d.Status.ReadyReplicas, 0)
	o.Updated, o.Pool = ptr.Deref(d.Status.UpToDateReplicas, 0), d.Name
	return o
}

// OfCAPISet is a MachineSet of Cluster API.
func OfCAPISet(s *clusterv1.MachineSet) *Object {
	o := ofCluster(KindSet, s, s.Spec.ClusterName, s.Status.Conditions)
	o.Desired, o.Ready = ptr.Deref(s.Spec.Replicas, 1), ptr.Deref(s.Status.ReadyReplicas, 0)
	o.Updated = o.Desired
	return o
}

// OfCAPIMachine is a Machine of Cluster API.
func OfCAPIMachine(m *clusterv1.Machine) *Object {
	o := ofCluster(KindMachine, m, m.Spec.ClusterName, m.Status.Conditions)
	o.Phase, o.PhaseSince = m.Status.Phase, m.Status.LastUpdated.Time
	o.Node, o.ProviderID, o.Joined = m.Status.NodeRef.Name, m.Spec.ProviderID, m.Status.NodeRef.Name != ""
	o.Pool = m.Labels[clusterv1.MachineDeploymentNameLabel]
	if seconds := m.Spec.Deletion.NodeDrainTimeoutSeconds; seconds != nil && *seconds > 0 {
		o.Drain = new(time.Duration(*seconds) * time.Second)
	}
	if d := m.Status.Deletion; d != nil {
		o.DrainBegan, o.DetachBegan = d.NodeDrainStartTime.Time, d.WaitForNodeVolumeDetachStartTime.Time
	}
	return o
}

// OfMCMMachine is the infrastructure of a Machine of Cluster API.
func OfMCMMachine(m *infrav1.MCMMachine) *Object {
	o := object(ClusterAPI, infrav1.GroupVersion, KindMCMMachine, m)
	o.Conditions = append(o.Conditions, conditions(m.Status.Conditions)...)
	o.Cluster, o.ProviderID = m.Labels[clusterv1.ClusterNameLabel], m.Spec.ProviderID
	o.Class, o.OwnerID = m.Status.MachineClassName, machinev1.OwnerID(m)
	if o.Class == "" {
		o.Class = m.Spec.MachineClassRef.Name
	}
	o.pauseByAnnotation(m)
	return o
}

// OfMCMConfig is the boot data of a Machine of Cluster API.
func OfMCMConfig(c *bootstrapv1.MCMConfig) *Object {
	o := object(ClusterAPI, bootstrapv1.GroupVersion, KindMCMConfig, c)
	o.Conditions = append(o.Conditions, conditions(c.Status.Conditions)...)
	o.Cluster = c.Labels[clusterv1.ClusterNameLabel]
	o.OwnerID, o.Attempt = string(c.UID), 1
	if c.Spec.MachineClassRef != nil {
		o.Class = c.Spec.MachineClassRef.Name
	}
	o.pauseByAnnotation(c)
	return o
}

// OfMCMCluster is the infrastructure of a Cluster.
func OfMCMCluster(c *infrav1.MCMCluster) *Object {
	o := object(ClusterAPI, infrav1.GroupVersion, KindMCMCluster, c)
	o.Conditions = append(o.Conditions, conditions(c.Status.Conditions)...)
	o.Cluster = c.Labels[clusterv1.ClusterNameLabel]
	return o
}

// OfControlPlane is the control plane of a Cluster that somebody else runs.
func OfControlPlane(c *controlplanev1.MCMExternalControlPlane) *Object {
	o := object(ClusterAPI, controlplanev1.GroupVersion, KindControlPlane, c)
	o.Conditions = append(o.Conditions, conditions(c.Status.Conditions)...)
	o.Cluster = c.Labels[clusterv1.ClusterNameLabel]
	return o
}

func ofCluster(kind string, m metav1.Object, cluster string, all []metav1.Condition) *Object {
	o := object(ClusterAPI, clusterv1.GroupVersion, kind, m)
	o.Conditions, o.Cluster = append(o.Conditions, conditions(all)...), cluster
	o.pauseByAnnotation(m)
	return o
}

// pauseByAnnotation shows a pause that only an annotation requests.
func (o *Object) pauseByAnnotation(m metav1.Object) {
	value, paused := m.GetAnnotations()[clusterv1.PausedAnnotation]
	switch {
	case paused && value != "":
		o.pause("annotation " + clusterv1.PausedAnnotation + " is set to " + value)
	case paused:
		o.pause("annotation " + clusterv1.PausedAnnotation + " is set")
	}
}

// counterpart is the object that o was made from by a migration, or the other way round; nil if
// there is none. Both exist from the begin of the migration until kubectl mcm migrate finish.
func (f *Facts) counterpart(o *Object) *Object {
	if from := f.indexed().byUID[o.CopiedFrom]; from != nil {
		return from
	}
	return f.indexed().copies[o.UID]
}

// pauseOf is the condition of a pause, or of the migration that has paused o. A Cluster is never
// paused by one.
func (f *Facts) pauseOf(o *Object, c Condition) Condition {
	other := f.counterpart(o)
	if c.Reason != reasonPaused || other == nil || o.Kind == KindCluster {
		return c
	}
	c.Reason, c.Message = reasonMigration, joined(c.Message, "the counterpart on the other API is "+other.String())
	return c
}

// pause makes the condition Paused True, whether or not a controller has written it.
func (o *Object) pause(message string) {
	o.Conditions = slices.DeleteFunc(o.Conditions, func(c Condition) bool { return c.Type == conditionPaused })
	o.Conditions = append(o.Conditions, Condition{
		Type: conditionPaused, Status: metav1.ConditionTrue, Reason: reasonPaused, Message: message,
	})
}
