package machine

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/claims"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// vmOwner is the Machine of a pass as the engine sees it.
type vmOwner struct {
	*Controller
	vm.Records
	p *pass
}

var (
	_ vm.Owner         = vmOwner{}
	_ vm.TagOwner      = vmOwner{}
	_ vm.BootDataOwner = vmOwner{}
	_ vm.Abandoned     = vmOwner{}
)

func (c *Controller) owner(p *pass) vmOwner {
	return vmOwner{c, vm.Records{
		Object: func() client.Object { return p.machine },
		Patch: func(ctx context.Context, change func(client.Object)) error {
			return c.patchMachine(ctx, p, func(m *machinev1.Machine) { change(m) })
		},
		Noted:  &p.did.scope,
		Claims: claims.Claims{Live: c.Live, Namespace: c.Namespace},
	}, p}
}

// Class is the class as the pass observed it.
func (o vmOwner) Class() (class.Resolved, error) { return o.p.seen.class, o.p.seen.classErr }

// Ref identifies the Machine's VM.
func (o vmOwner) Ref() cloud.Ref {
	m := o.p.machine
	return cloud.Ref{
		Name: m.Name, OwnerID: machinev1.OwnerID(m), ProviderID: m.Spec.ProviderID,
		State: m.Status.LastKnownState, Created: m.CreationTimestamp.Time, Scope: o.Scope(),
		Object: cloud.Object{UID: string(m.UID), Labels: m.Labels, Annotations: m.Annotations},
	}
}

// Attempt is foreign where MCM may have created a VM, without any token.
func (o vmOwner) Attempt() (number int, foreign bool) {
	return attemptOf(o.p.machine), o.p.machine.Annotations[machinev1.CreateAttemptAnnotation] == attemptUnknown
}

// Request asks for the annotations of the node template, which some clouds read.
func (o vmOwner) Request() cloud.CreateRequest {
	return cloud.CreateRequest{Annotations: o.p.machine.Spec.NodeTemplateSpec.Annotations}
}

// ZonesInUse counts the Machines of the class.
func (o vmOwner) ZonesInUse(ctx context.Context) (map[string]int, error) {
	var list machinev1.MachineList
	err := o.Client.List(ctx, &list, client.InNamespace(o.p.machine.Namespace),
		client.MatchingFields{index.MachineByClass: o.p.machine.Spec.Class.Name})
	use := map[string]int{}
	for i := range list.Items {
		m := &list.Items[i]
		if m.DeletionTimestamp.IsZero() && m.UID != o.p.machine.UID && m.Spec.Class.Name == o.p.machine.Spec.Class.Name {
			use[m.Annotations[machinev1.ZoneAnnotation]]++
		}
	}
	return use, err
}

// ScopesInUse are those of the Machines of the class.
func (o vmOwner) ScopesInUse(ctx context.Context) ([]string, error) {
	var list machinev1.MachineList
	err := o.Client.List(ctx, &list, client.InNamespace(o.p.machine.Namespace),
		client.MatchingFields{index.MachineByClass: o.p.machine.Spec.Class.Name})
	var used []string
	for i := range list.Items {
		m := &list.Items[i]
		if m.UID != o.p.machine.UID && m.Spec.ProviderID != "" && m.Spec.Class.Name == o.p.machine.Spec.Class.Name {
			used = append(used, m.Annotations[machinev1.CloudScopeAnnotation])
		}
	}
	return used, err
}

// RecordIntent persists which tags the VM will get, where they may change, and that the cloud
// will keep its boot data, where it does. Finalizer and owner id are there before the first
// step, and the first attempt needs no record.
func (o vmOwner) RecordIntent(ctx context.Context) error {
	record := vm.RecordForCreate(o.p.seen.class, o.AppliedTags(), phaseOf(o.p) == "" && o.AppliedTags() == "")
	return o.patchMachine(ctx, o.p, func(m *machinev1.Machine) {
		if record != o.AppliedTags() {
			machinev1.SetAnnotation(m, machinev1.AppliedTagsAnnotation, record)
		}
		if vm.KeepsBootData(o.p.seen.class) {
			machinev1.SetAnnotation(m, machinev1.BootDataAnnotation, machinev1.BootDataKept)
		}
	})
}

// OtherClasses are those of the Machine's pool.
func (o vmOwner) OtherClasses(ctx context.Context) ([]class.Resolved, error) {
	m := o.p.machine
	names, err := fallback.ClassesOfMachine(ctx, o.Client, m)
	if err != nil || len(names) < 2 {
		return nil, err
	}
	return fallback.Others(ctx, o.Client, o.classes.Resolve,
		fallback.Pool{Namespace: m.Namespace, Classes: names}, m.Spec.Class.Name)
}

// RecordClass persists the class in the spec.
func (o vmOwner) RecordClass(ctx context.Context, name string) error {
	o.NoteScope("")
	return o.patchMachine(ctx, o.p, func(m *machinev1.Machine) {
		m.Spec.Class.Name = name
		delete(m.Annotations, machinev1.CloudScopeAnnotation)
	})
}

// RecordState persists the driver's checkpoint where MCM keeps it.
func (o vmOwner) RecordState(ctx context.Context, state string) error {
	if o.p.machine.Status.LastKnownState == state {
		return nil
	}
	changed := o.p.machine.DeepCopy()
	changed.Status.LastKnownState = state
	if err := o.Client.Status().Patch(ctx, changed, client.MergeFrom(o.p.machine)); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	o.p.machine = changed
	return nil
}

// RecordVM persists providerID and node name in one write, unless the node name
// is taken.
func (o vmOwner) RecordVM(ctx context.Context, made cloud.VM) error {
	taken, err := o.nodeNameTaken(ctx, o.p, made)
	switch {
	case err != nil:
		return err
	case taken:
		return errNodeNameTaken
	}
	return o.record(ctx, o.p, made)
}

// record persists what identifies the VM, in one write.
func (c *Controller) record(ctx context.Context, p *pass, made cloud.VM) error {
	err := c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		if m.Spec.ProviderID == "" {
			m.Spec.ProviderID = providerIDIn(m, made)
		}
		if c.Target != nil && made.NodeName != "" {
			machinev1.SetLabel(m, machinev1.NodeLabel, made.NodeName)
		}
	})
	p.nodeName = p.machine.Labels[machinev1.NodeLabel]
	return err
}

// UserData is the boot data of the class with the placeholders filled in.
func (o vmOwner) UserData(ctx context.Context) (data []byte, spent bool, err error) {
	raw, err := o.p.seen.class.UserData()
	if err != nil {
		return nil, false, err
	}
	values := bootstrap.Values{MachineName: o.p.machine.Name, Token: bootstrap.KeepToken}
	if o.Target != nil && bootstrap.NeedsToken(raw) {
		values.Token, spent, err = token.Ensure(ctx, o.tokens(), o.tokenRequest(o.p))
		if err != nil || spent {
			return nil, spent, err
		}
	}
	filled, err := bootstrap.Fill(raw, values)
	if err != nil {
		return nil, false, invalidUserData(err)
	}
	packed, err := bootstrap.Pack(filled, o.p.seen.class.Driver.Traits().UserDataMax)
	if err != nil {
		return nil, false, invalidUserData(err)
	}
	return packed, false, nil
}

func (c *Controller) tokens() token.Deps {
	return token.Deps{Client: c.Target.Client, Live: c.Target.Live}
}

// shortestToken is the life of a bootstrap token where the creation timeout is shorter: one
// that is made expired would make each pass a new attempt.
const shortestToken = time.Minute

func (c *Controller) tokenRequest(p *pass) token.Request {
	return token.Request{
		MachineName: p.machine.Name, OwnerID: machinev1.OwnerID(p.machine), Attempt: attemptOf(p.machine),
		Now: p.seen.now, Expiration: p.seen.now.Add(max(p.seen.settings.creation, shortestToken)),
		ExtraGroups: c.Options.BootstrapTokenExtraGroups, Rand: c.Rand,
	}
}

// dropToken removes the Machine's bootstrap token, if its boot data asks for
// one. What cannot be read any more is left to the token's expiry.
func (c *Controller) dropToken(ctx context.Context, p *pass) error {
	if c.Target == nil {
		return nil
	}
	if p.seen.classErr != nil {
		return p.seen.classErr
	}
	raw, err := p.seen.class.UserData()
	if err != nil || !bootstrap.NeedsToken(raw) {
		return nil //nolint:nilerr // no boot data, no token
	}
	if err := token.Delete(ctx, c.tokens(), c.tokenRequest(p)); err != nil {
		return fmt.Errorf("remove bootstrap token: %w", err)
	}
	return nil
}

func invalidUserData(err error) error {
	return &cloud.Error{
		Code: cloud.Invalid, Op: "prepare boot data", Reason: machinev1.ReasonInvalidUserData,
		Problems: []cloud.Problem{{
			Severity: cloud.BlocksCreate, Field: "secretRef." + machinev1.UserDataKey,
			Message: err.Error(),
		}},
		Err: err,
	}
}
