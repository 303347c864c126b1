package machine

import (
	"context"
	"errors"
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

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
