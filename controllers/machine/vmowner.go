package machine

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// ref says which VM is the Machine's.
func (c *Controller) ref(m *machinev1.Machine, r class.Resolved) cloud.Ref {
	return cloud.Ref{
		Name: m.Name, OwnerID: machinev1.OwnerID(m), ProviderID: m.Spec.ProviderID, Class: r.Class,
		State: m.Status.LastKnownState, Created: m.CreationTimestamp.Time,
	}
}

// nextAttempt records the number of the next attempt before it begins.
func (c *Controller) nextAttempt(f *facts) func(context.Context, int) error {
	return func(ctx context.Context, attempt int) error {
		return c.patchMachine(ctx, f, func(m *machinev1.Machine) {
			setAnnotation(m, machinev1.CreateAttemptAnnotation, fmt.Sprint(attempt))
		})
	}
}

// checkpoint persists the driver's note to itself, where MCM keeps it.
func (c *Controller) checkpoint(f *facts) func(context.Context, string) error {
	return func(ctx context.Context, state string) error {
		if f.machine.Status.LastKnownState == state {
			return nil
		}
		changed := f.machine.DeepCopy()
		changed.Status.LastKnownState = state
		if err := c.Client.Status().Patch(ctx, changed, client.MergeFrom(f.machine)); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		c.marks.Wrote(changed)
		f.machine = changed
		return nil
	}
}

// record persists what identifies the VM, in one write: from then on this
// Machine never makes another.
func (c *Controller) record(ctx context.Context, f *facts, made cloud.VM) error {
	err := c.patchMachine(ctx, f, func(m *machinev1.Machine) {
		if m.Spec.ProviderID == "" {
			m.Spec.ProviderID = providerIDIn(m, made)
		}
		if c.Target != nil && made.NodeName != "" {
			setLabel(m, machinev1.NodeLabel, made.NodeName)
		}
	})
	f.nodeName = f.machine.Labels[machinev1.NodeLabel]
	return err
}

// userData returns the finished boot payload of the Machine's current attempt:
// the same bytes each time. spent means that the attempt can have none any more.
func (c *Controller) userData(ctx context.Context, f *facts, r class.Resolved) (data []byte, spent bool, err error) {
	raw, err := r.UserData()
	if err != nil {
		return nil, false, err
	}
	values := bootstrap.Values{MachineName: f.machine.Name, Token: bootstrap.KeepToken}
	if c.Target != nil && bootstrap.NeedsToken(raw) {
		values.Token, spent, err = token.Ensure(ctx, c.tokens(), c.tokenRequest(f))
		if err != nil || spent {
			return nil, spent, err
		}
	}
	filled, err := bootstrap.Fill(raw, values)
	if err != nil {
		return nil, false, invalidUserData(err)
	}
	packed, err := bootstrap.Pack(filled, r.Driver.Traits().UserDataMax)
	if err != nil {
		return nil, false, invalidUserData(err)
	}
	return packed, false, nil
}

func (c *Controller) tokens() token.Deps {
	return token.Deps{Client: c.Target.Client, Live: c.Target.Live}
}

func (c *Controller) tokenRequest(f *facts) token.Request {
	return token.Request{
		MachineName: f.machine.Name, OwnerID: machinev1.OwnerID(f.machine), Attempt: attemptOf(f.machine),
		Now: f.now, Expiration: f.now.Add(f.settings.creation),
		ExtraGroups: c.Options.BootstrapTokenExtraGroups, Rand: c.Rand,
	}
}

// dropToken removes the Machine's bootstrap token, if its boot data asks for
// one. What cannot be read any more is left to the token's expiry.
func (c *Controller) dropToken(ctx context.Context, f *facts) error {
	if c.Target == nil {
		return nil
	}
	r, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil {
		return err
	}
	raw, err := r.UserData()
	if err != nil || !bootstrap.NeedsToken(raw) {
		return nil //nolint:nilerr // no boot data, no token
	}
	if err := token.Delete(ctx, c.tokens(), c.tokenRequest(f)); err != nil {
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

// isCloud reports whether err tells about the machine rather than about the API server.
func isCloud(err error) bool {
	_, ok := errors.AsType[*cloud.Error](err)
	return ok
}
