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

// vm is the Machine of a pass as the engine sees it.
func (c *Controller) vm(p *pass) *vm.Machine {
	m := p.machine
	return &vm.Machine{
		Object: m, State: stateOf(m), Noted: &p.did.scope,
		Save: func(ctx context.Context, change func(*vm.State)) (vm.State, error) {
			err := c.saveState(ctx, p, change)
			return stateOf(p.machine), err
		},
		ClassName: m.Spec.Class.Name, Class: p.seen.class, ClassErr: p.seen.classErr,
		Pool: func(ctx context.Context) ([]fallback.Candidate, error) { return c.pool(ctx, m) },
		Substitutes: func(ctx context.Context) ([]class.Resolved, error) {
			recorded, _ := machinev1.SubstituteClass(p.machine)
			return class.Substitutes(ctx, c.Client, class.Search{
				Resolve: c.classes.Resolve, Namespace: m.Namespace, ProviderID: p.machine.Spec.ProviderID, First: recorded,
				Own: m.Spec.Class.Name,
			})
		},
		Peers:        func(ctx context.Context) ([]vm.Peer, error) { return c.peers(ctx, m) },
		Request:      cloud.CreateRequest{Annotations: m.Spec.NodeTemplateSpec.Annotations}, // which some clouds read
		UserData:     func(ctx context.Context) ([]byte, bool, error) { return c.userData(ctx, p) },
		ProviderIDOf: func(made cloud.VM) string { return providerIDIn(p.machine, made) },
		Accepts: func(ctx context.Context, made cloud.VM) error {
			taken, err := c.nodeNameTaken(ctx, p, made)
			if err == nil && taken {
				err = errNodeNameTaken
			}
			return err
		},
		Claimant: func(ctx context.Context, ownerID string, providerIDs ...string) (string, error) {
			return claims.Claims{Live: c.Live, Namespace: c.Namespace}.Other(ctx, p.machine, ownerID, providerIDs...)
		},
		Released: mayReleaseWithoutVM(m), Hurried: forceDeletion(m),
		Emit: func(eventType, reason, message string) {
			p.did.events = append(p.did.events, kubeEvent{eventType, reason, message})
		},
	}
}

// stateOf is what a Machine has on record of its VM. The first attempt has no record, and its phase says that it has
// begun.
func stateOf(m *machinev1.Machine) vm.State {
	s := vm.ReadState(m)
	s.Class, s.ProviderID, s.Checkpoint = m.Spec.Class.Name, m.Spec.ProviderID, m.Status.LastKnownState
	s.NodeName, s.Requested = m.Labels[machinev1.NodeLabel], m.Status.CurrentStatus.Phase != ""
	return s
}

// saveState persists what change makes of a Machine's State: the checkpoint where MCM keeps it, in the status, and
// the rest in one write.
func (c *Controller) saveState(ctx context.Context, p *pass, change func(*vm.State)) error {
	was := stateOf(p.machine)
	s := was
	change(&s)
	if s.Checkpoint != was.Checkpoint {
		changed := p.machine.DeepCopy()
		changed.Status.LastKnownState = s.Checkpoint
		if err := c.Client.Status().Patch(ctx, changed, client.MergeFrom(p.machine)); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		p.machine = changed
	}
	err := c.patchMachine(ctx, p, func(m *machinev1.Machine) {
		s.Write(m)
		m.Spec.Class.Name, m.Spec.ProviderID = s.Class, s.ProviderID
		if s.Attempt != was.Attempt || s.Foreign != was.Foreign {
			machinev1.SetAnnotation(m, machinev1.CreateAttemptAnnotation, s.AttemptText())
		}
		if c.Target != nil && s.NodeName != "" {
			machinev1.SetLabel(m, machinev1.NodeLabel, s.NodeName)
		}
	})
	p.nodeName = p.machine.Labels[machinev1.NodeLabel]
	return err
}

// pool are the classes that a Machine may have; nil: its set names one. The one name may be that of a template that
// was edited since.
func (c *Controller) pool(ctx context.Context, m *machinev1.Machine) ([]fallback.Candidate, error) {
	names, err := fallback.ClassesOfMachine(ctx, c.Client, m)
	if err != nil || len(names) < 2 {
		return nil, err
	}
	return fallback.Candidates(ctx, c.Client, c.classes.Resolve, fallback.Pool{Namespace: m.Namespace, Classes: names})
}

// peers are the other Machines of the class.
func (c *Controller) peers(ctx context.Context, m *machinev1.Machine) ([]vm.Peer, error) {
	var list machinev1.MachineList
	err := c.Client.List(ctx, &list, client.InNamespace(m.Namespace),
		client.MatchingFields{index.MachineByClass: m.Spec.Class.Name})
	var peers []vm.Peer
	for i := range list.Items {
		if o := &list.Items[i]; o.UID != m.UID && o.Spec.Class.Name == m.Spec.Class.Name {
			peers = append(peers, vm.Peer{State: stateOf(o), Deleting: !o.DeletionTimestamp.IsZero()})
		}
	}
	return peers, err
}

// userData is the boot data of the class with the placeholders filled in.
func (c *Controller) userData(ctx context.Context, p *pass) (data []byte, spent bool, err error) {
	raw, err := p.seen.class.UserData()
	if err != nil {
		return nil, false, err
	}
	values := bootstrap.Values{MachineName: p.machine.Name, Token: bootstrap.KeepToken}
	if c.Target != nil && bootstrap.NeedsToken(raw) {
		values.Token, spent, err = token.Ensure(ctx, c.tokens(), c.tokenRequest(p))
		if err != nil || spent {
			return nil, spent, err
		}
	}
	filled, err := bootstrap.Fill(raw, values)
	if err != nil {
		return nil, false, invalidUserData(err)
	}
	packed, err := bootstrap.Pack(filled, p.seen.class.Driver.Traits().UserDataMax)
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
