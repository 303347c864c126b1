package explain

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

// Names of steps, for people.
const (
	stepAsked   = "asked"
	stepHold    = "not held"
	stepSpec    = "spec"
	stepVM      = "VM"
	stepBalance = "load balancer"
	stepJoin    = "join"
	stepHealth  = "health"
	stepDrain   = "drain"
	stepDelete  = "delete"
	stepCluster = "cluster"
	stepPlane   = "control plane"
	stepBoot    = "boot data"
	stepTags    = "tags"
	stepCleanup = "boot data removed"
	stepRollout = "rollout"
	stepCount   = "machines"
)

// nativeMachine adds the steps of a Machine of the native API.
func (c *chain) nativeMachine(o *Object) {
	c.done(stepAsked, o, c.asked(o), o.Created)
	c.mustNot(o, conditionHeld)
	if o.Deleting != nil {
		c.nativeDeletion(o)
		return
	}
	if cond := o.condition(machinev1.ConditionSpecValid); cond != nil && cond.Status == metav1.ConditionFalse {
		c.lacks(stepSpec, o, *cond)
	}
	c.nativeVM(o)
	c.registered(o, o.Joined)
	c.nativeNode(o)
	c.upkeep(o)
}

// registered adds the step of the load balancers that the class of a machine names. A node that
// has to reach the API server through them joins after it; one that has joined needs them no more.
func (c *chain) registered(o *Object, joined bool) {
	cond := o.condition(machinev1.ConditionLoadBalancerRegistered)
	switch {
	case cond == nil:
	case cond.Status == metav1.ConditionTrue:
		c.done(stepBalance, o, cond.Message, cond.Since)
	case joined:
		c.lacksBeside(stepBalance, o, *cond)
	default:
		c.lacks(stepBalance, o, *cond)
	}
}

// upkeep adds what is missing beside a machine that works: its conditions exist only then.
func (c *chain) upkeep(o *Object) {
	steps := []struct{ name, kind string }{
		{stepCleanup, machinev1.ConditionBootDataRemoved}, {stepTags, machinev1.ConditionTagsUpdated},
	}
	for _, s := range steps {
		if cond := o.condition(s.kind); cond != nil && cond.Status == metav1.ConditionFalse {
			c.lacksBeside(s.name, o, *cond)
		}
	}
}

// asked tells who wants the machine.
func (c *chain) asked(o *Object) string {
	text := "it was created without a MachineSet"
	if owner := c.facts.owner(o); owner != nil {
		text = fmt.Sprintf("%s %s asks for it", owner.Kind, owner.Name)
	}
	if o.Class != "" {
		text += ", from MachineClass " + o.Class
	}
	return text
}

// nativeVM adds the step of the VM. Where the API server prunes conditions, as MCM's own
// CRDs make it, phase and operation have to do.
func (c *chain) nativeVM(o *Object) {
	cond := o.condition(machinev1.ConditionVMReady)
	frozen := o.condition(machinev1.ConditionNodeReady)
	failed := o.Operation.Type == string(machinev1.MachineOperationCreate) &&
		o.Operation.State == string(machinev1.MachineStateFailed)
	switch {
	case cond != nil && cond.Status == metav1.ConditionTrue, cond == nil && o.ProviderID != "":
		c.done(stepVM, o, o.ProviderID, sinceOf(cond))
	case cond != nil:
		c.lacks(stepVM, o, *cond)
	case frozen != nil && frozen.Reason == machinev1.ReasonFrozen:
		c.lacks(stepVM, o, *frozen) // nothing else is reported meanwhile
	case failed:
		c.lacks(stepVM, o, Condition{
			Type: machinev1.ConditionVMReady, Reason: reasonCreateFailed, Message: o.Operation.Description,
			Since: o.Operation.Since,
		})
	default:
		c.must(stepVM, o, machinev1.ConditionVMReady)
	}
}

// nativeNode adds the steps of the node: it joins, and it is healthy.
func (c *chain) nativeNode(o *Object) {
	cond := o.condition(machinev1.ConditionNodeReady)
	healthy := cond != nil && cond.Status == metav1.ConditionTrue ||
		cond == nil && o.Phase == string(machinev1.MachineRunning)
	switch {
	case o.Phase == string(machinev1.MachineAvailable):
		c.done(stepJoin, o, "there is no target cluster to join", o.PhaseSince)
	case healthy:
		c.done(stepJoin, o, "Node "+o.Node, o.PhaseSince)
		c.healthy(o)
	case cond == nil:
		c.waitsForNode(o, Condition{
			Type: machinev1.ConditionNodeReady, Reason: machinev1.ReasonWaitingForNode, Message: o.Operation.Description,
			Since: o.PhaseSince,
		})
	case cond.Reason == machinev1.ReasonWaitingForNode, cond.Reason == machinev1.ReasonFrozen && !o.Joined:
		c.waitsForNode(o, *cond)
	default:
		c.done(stepJoin, o, "Node "+o.Node, o.PhaseSince)
		c.lacks(stepHealth, o, *cond)
	}
}

// healthy adds the step of a node that was healthy when the manager last reported about it.
func (c *chain) healthy(o *Object) {
	if c.facts.TargetError == "" {
		c.done(stepHealth, o, "the node is healthy", o.PhaseSince)
		return
	}
	c.lacks(stepHealth, o, Condition{
		Reason: reasonTargetError, Message: "Nodes cannot be read: " + c.facts.TargetError,
	})
}

// waitsForNode adds the steps of a machine whose node has not joined.
func (c *chain) waitsForNode(o *Object, cond Condition) {
	if cond.Reason != machinev1.ReasonFrozen {
		cond = c.facts.join(o, cond)
	}
	c.lacks(stepJoin, o, cond)
	c.done(stepHealth, o, "", o.PhaseSince)
}

// drainReasons are those of Deleted that belong to the drain.
var drainReasons = []string{
	machinev1.ReasonDraining, machinev1.ReasonEvictionDenied, machinev1.ReasonDrainTimedOut,
	machinev1.ReasonDetachingVolumes, machinev1.ReasonOutage, "PodDisruptionBudgetMisconfigured", "EvictionFailed",
	"PodOverdue", "ReattachingVolumes",
}

// nativeDeletion adds the steps of a Machine that is being deleted: its drain, then its VM and Node.
func (c *chain) nativeDeletion(o *Object) {
	drained, deleted := o.condition(machinev1.ConditionDrained), o.condition(machinev1.ConditionDeleted)
	waits := deleted != nil && deleted.Status != metav1.ConditionTrue
	switch {
	case waits && slices.Contains(drainReasons, deleted.Reason):
		c.lacks(stepDrain, o, *deleted)
	case !waits && drained != nil && drained.Status != metav1.ConditionTrue:
		c.lacks(stepDrain, o, *drained)
	case drained != nil:
		c.done(stepDrain, o, drained.Message, drained.Since)
	}
	if waits && !slices.Contains(drainReasons, deleted.Reason) {
		c.lacks(stepDelete, o, *deleted)
		return
	}
	c.lacks(stepDelete, o, Condition{
		Type: machinev1.ConditionDeleted, Reason: reasonTerminating, Since: *o.Deleting,
		Message: strings.TrimSpace(o.Operation.Description),
	})
}

// sinceOf is when a condition changed; zero if there is none.
func sinceOf(c *Condition) time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.Since
}

// capiMachine adds the steps of a Machine of Cluster API, with those of its MCMConfig and
// MCMMachine.
func (c *chain) capiMachine(o *Object) {
	infra, boot := c.facts.child(o, KindMCMMachine), c.facts.child(o, KindMCMConfig)
	if infra != nil && o.Class == "" {
		o.Class = infra.Class
	}
	c.done(stepAsked, o, c.asked(o), o.Created)
	owner := c.facts.named(KindCluster, o.Namespace, o.Cluster)
	for _, held := range []*Object{owner, o, infra} {
		if held != nil && c.missing() == nil {
			c.mustNot(held, conditionPaused, conditionHeld)
		}
	}
	if o.Deleting != nil {
		c.capiDeletion(o, infra)
		return
	}
	if owner != nil && !provisioned(infra) {
		c.clusterReady(owner)
	}
	c.bootData(o, boot)
	c.capiVM(o, infra)
	c.registered(infra, o.Joined)
	c.capiNode(o, boot)
	c.upkeep(infra)
}

// provisioned reports whether there is a VM, so that what comes before it is over.
func provisioned(infra *Object) bool {
	if infra == nil {
		return false
	}
	cond := infra.condition(infrav1.VMProvisionedCondition)
	return cond != nil && cond.Status == metav1.ConditionTrue
}

// clusterReady adds the steps of a Cluster that come before any machine. What the
// objects behind a condition report is more exact than the Cluster's summary of it.
func (c *chain) clusterReady(o *Object) {
	c.clusterPart(stepCluster, o, clusterv1.ClusterInfrastructureReadyCondition, c.part(o, KindMCMCluster))
	c.clusterPart(stepPlane, o, clusterv1.ClusterControlPlaneInitializedCondition, c.part(o, KindControlPlane))
}

// part is the object of a kind that belongs to a Cluster; nil if there is none.
func (c *chain) part(o *Object, kind string) *Object {
	if found := c.facts.child(o, kind); found != nil {
		return found
	}
	for _, other := range c.facts.Objects {
		if other.Kind == kind && other.Namespace == o.Namespace && other.Cluster == o.Name {
			return other
		}
	}
	return nil
}

func (c *chain) clusterPart(name string, o *Object, kind string, behind *Object) {
	cond := o.condition(kind)
	if behind != nil && (cond == nil || cond.Status != metav1.ConditionTrue) {
		ready := behind.condition(clusterv1.ReadyCondition)
		if ready != nil && ready.Status != metav1.ConditionTrue {
			c.lacks(name, behind, *ready)
			return
		}
	}
	c.must(name, o, kind)
}

// bootData adds the step of the bootstrap provider; boot is nil for another provider's.
func (c *chain) bootData(o, boot *Object) {
	if boot == nil {
		if o.condition(clusterv1.MachineBootstrapConfigReadyCondition) != nil {
			c.must(stepBoot, o, clusterv1.MachineBootstrapConfigReadyCondition)
		}
		return
	}
	c.must(stepBoot, boot, clusterv1.ReadyCondition)
}

// capiVM adds the step of the VM; infra is nil for another provider's.
func (c *chain) capiVM(o, infra *Object) {
	if infra == nil {
		c.must(stepVM, o, clusterv1.MachineInfrastructureReadyCondition)
		return
	}
	cond := infra.condition(infrav1.VMProvisionedCondition)
	if cond != nil && cond.Status == metav1.ConditionTrue {
		c.done(stepVM, infra, infra.ProviderID, cond.Since)
		return
	}
	c.must(stepVM, infra, infrav1.VMProvisionedCondition)
}

// capiNode adds the steps of the node: it joins, and it is healthy.
func (c *chain) capiNode(o, boot *Object) {
	cond := o.condition(clusterv1.MachineNodeHealthyCondition)
	if o.Joined {
		c.done(stepJoin, o, "Node "+o.Node, o.PhaseSince)
		c.must(stepHealth, o, cmp.Or(kindOf(cond), clusterv1.MachineNodeReadyCondition))
		return
	}
	waits := Condition{
		Type: clusterv1.MachineNodeHealthyCondition, Reason: clusterv1.MachineNodeDoesNotExistReason, Since: o.PhaseSince,
		Message: "the Machine has no Node yet",
	}
	if cond != nil && cond.Reason != clusterv1.MachineNodeInspectionFailedReason && cond.Message != "" {
		waits.Reason, waits.Message, waits.Since = cond.Reason, cond.Message, cond.Since
	}
	if boot != nil && waits.Reason == clusterv1.MachineNodeDoesNotExistReason {
		looked := *o
		looked.OwnerID, looked.Attempt = boot.OwnerID, boot.Attempt
		waits = c.facts.join(&looked, waits)
	}
	c.lacks(stepJoin, o, waits)
	c.done(stepHealth, o, "", o.PhaseSince)
}

func kindOf(c *Condition) string {
	if c == nil {
		return ""
	}
	return c.Type
}

// capiDeletion adds the steps of a Machine that is being deleted: Cluster API drains it,
// then the MCMMachine deletes its VM.
func (c *chain) capiDeletion(o, infra *Object) {
	cond := o.condition(clusterv1.MachineDeletingCondition)
	if cond == nil || cond.Status != metav1.ConditionTrue {
		cond = &Condition{
			Type: clusterv1.MachineDeletingCondition, Reason: clusterv1.MachineDeletingReason, Since: *o.Deleting,
		}
	}
	switch cond.Reason {
	case clusterv1.MachineDeletingDrainingNodeReason, clusterv1.MachineDeletingWaitingForVolumeDetachReason,
		clusterv1.MachineDeletingWaitingForPreDrainHookReason:
		c.lacks(stepDrain, o, *cond)
	case clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason:
		c.done(stepDrain, o, "", cond.Since)
		c.infraDeletion(o, infra, *cond)
		return
	}
	c.lacks(stepDelete, o, *cond)
}

// infraDeletion adds what the MCMMachine reports about the VM, which is more exact.
func (c *chain) infraDeletion(o, infra *Object, cond Condition) {
	if infra != nil {
		if own := infra.condition(clusterv1.DeletingCondition); own != nil && own.Status == metav1.ConditionTrue {
			c.lacks(stepDelete, infra, *own)
			return
		}
	}
	c.lacks(stepDelete, o, cond)
}

// Prefixes of the users that kubelets are.
const (
	tokenUser = "system:bootstrap:"
	nodeUser  = "system:node:"
)

// TokenID is the ID of a machine's bootstrap token; empty if it is not known.
func (o *Object) TokenID() string {
	if o.OwnerID == "" {
		return ""
	}
	return token.ID(o.OwnerID, o.Attempt)
}

// join looks for why a machine with a VM has no Node: the API server, the token, the
// certificate and the name of the node, in this order. What could not be read decides nothing.
func (f *Facts) join(o *Object, c Condition) Condition {
	because := func(reason, format string, args ...any) Condition {
		c.Reason, c.Message = reason, fmt.Sprintf(format, args...)
		return c
	}
	if f.TargetError != "" {
		return because(reasonTargetError, "Nodes cannot be read: %s", f.TargetError)
	}
	if name := f.otherNode(o); name != "" {
		return because(reasonOtherName, "the VM has joined as Node %s, not as Node %s", name, o.Node)
	}
	request := f.request(o)
	if request == nil {
		return f.noRequest(o, c)
	}
	name, approved := requestedNode(request), len(request.Status.Certificate) > 0
	switch {
	case name != "" && o.Node != "" && name != o.Node:
		return because(reasonOtherName, "the kubelet asks to join as Node %s, not as Node %s", name, o.Node)
	case !approved:
		return because(reasonNotApproved, "CertificateSigningRequest %s has no certificate", request.Name)
	}
	c.Message = joined(c.Message, "the bootstrap token was used, and CertificateSigningRequest "+request.Name+
		" has a certificate")
	return c
}

// noRequest is a kubelet that has not been heard of: its token may have expired.
func (f *Facts) noRequest(o *Object, c Condition) Condition {
	id := o.TokenID()
	known, read := f.Tokens[id], f.TokensRead[id]
	_, exists := f.Tokens[id]
	switch {
	case id == "" || !read:
	case !exists && o.API == Native:
		c.Message = joined(c.Message, "bootstrap token "+id+" does not exist: the boot data uses none, or it was removed")
	case exists && !known.Expires.IsZero() && !known.Expires.After(f.Now):
		c.Reason = reasonTokenExpired
		c.Message = joined(c.Message, fmt.Sprintf("bootstrap token %s expired at %s and was not used", id,
			known.Expires.UTC().Format(time.RFC3339)))
	case exists:
		c.Message = joined(c.Message, "bootstrap token "+id+" is valid, and no kubelet has used it")
	}
	return c
}

// otherNode is the name of a Node with the machine's providerID and another name.
func (f *Facts) otherNode(o *Object) string {
	if o.ProviderID == "" || o.Node == "" {
		return ""
	}
	for _, n := range f.indexed().nodeIDs[last(o.ProviderID)] {
		if sameVM(n.Spec.ProviderID, o.ProviderID) && n.Name != o.Node {
			return n.Name
		}
	}
	return ""
}

// sameVM compares providerIDs of one cloud in any of their forms: all end in the ID of the VM.
func sameVM(a, b string) bool {
	cloudA, restA, okA := strings.Cut(a, "://")
	cloudB, restB, okB := strings.Cut(b, "://")
	return okA && okB && cloudA == cloudB && last(restA) == last(restB) && last(restA) != ""
}

func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// request is the newest request for a certificate by the machine's bootstrap token.
func (f *Facts) request(o *Object) *certificatesv1.CertificateSigningRequest {
	id := o.TokenID()
	if id == "" {
		return nil
	}
	var found *certificatesv1.CertificateSigningRequest
	for i := range f.Requests {
		r := &f.Requests[i]
		if r.Spec.Username == tokenUser+id && (found == nil || found.CreationTimestamp.Before(&r.CreationTimestamp)) {
			found = r
		}
	}
	return found
}

// requestedNode is the name of the node that a request is for; empty if it cannot be read.
func requestedNode(r *certificatesv1.CertificateSigningRequest) string {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	name, _ := strings.CutPrefix(parsed.Subject.CommonName, nodeUser)
	return name
}

func joined(texts ...string) string {
	var kept []string
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return strings.Join(kept, "; ")
}

// Console is what the console of a machine said that did not join.
type Console struct {
	Machine string      `json:"machine"`
	Read    metav1.Time `json:"read"`
	// Cause is empty if nothing on the console is known to keep a node from joining.
	Cause   console.Cause `json:"cause,omitempty"`
	Summary string        `json:"summary"`
	Remedy  string        `json:"remedy"`
	// Line is the guest's, redacted.
	Line string `json:"line,omitempty"`
}

// ConsoleSecret is the Secret with the consoles of a pool; no name for an object that is none.
func ConsoleSecret(o *Object) (namespace, name string) {
	if o.Kind != KindDeployment && o.Kind != KindSet {
		return o.Namespace, ""
	}
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return o.Namespace, console.SecretName(group, o.Kind, o.Name)
}

// Failures are what is kept about an object, the newest first: of a machine its own, or else those
// of the pool that it is a part of; of a pool those of its machines.
func (f *Facts) Failures(o *Object) []console.Failure {
	own := []*Object{o, f.child(o, KindMCMMachine)}
	for pool := o; pool != nil; pool = f.owner(pool) {
		namespace, name := ConsoleSecret(pool)
		all := f.Consoles[namespace+"/"+name]
		for _, machine := range own {
			if machine == nil {
				continue
			}
			if found, ok := console.Find(all, machine.OwnerID); ok {
				return []console.Failure{found}
			}
		}
		if len(all) > 0 {
			return all
		}
	}
	return nil
}

// Unjoined are the objects whose consoles may tell something: machines without node, and pools
// that lack machines.
func (f *Facts) Unjoined() []*Object {
	var found []*Object
	for _, o := range f.Objects {
		switch o.Kind {
		case KindMachine:
			if !o.Joined {
				found = append(found, o)
			}
		case KindSet, KindDeployment:
			if o.Ready < o.Desired {
				found = append(found, o)
			}
		}
	}
	return found
}

// Pool is the pool that keeps the consoles of o: the last MachineDeployment or MachineSet above it.
// nil: it belongs to none.
func (f *Facts) Pool(o *Object) *Object {
	var found *Object
	for part := o; part != nil; part = f.owner(part) {
		if _, name := ConsoleSecret(part); name != "" {
			found = part
		}
	}
	return found
}

// consoles are what an explanation of o shows of consoles.
func (f *Facts) consoles(o *Object) []Console {
	if o.Kind == KindMachine && (o.Joined || o.ProviderID == "") {
		return nil // what it lacks has nothing to do with joining
	}
	var shown []Console
	for _, failure := range f.Failures(o) {
		v := failure.Verdict()
		shown = append(shown, Console{
			Machine: failure.Machine, Read: metav1.NewTime(failure.Read), Cause: v.Cause, Summary: v.Summary, Remedy: v.Remedy,
			Line: v.Line,
		})
	}
	return shown
}
