package aws

import (
	"context"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

const (
	opIdentity = "get caller identity"

	identityTimeout = 10 * time.Second
	// unnamedAge is how long STS is left alone after it has failed: where a network lets only EC2 through,
	// each call would wait for it.
	unnamedAge = 10 * time.Minute
)

// Scope is the AWS account, as STS names it to everybody without a permission, and the region. STS is asked
// once for the life of the account.
func (a *account) Scope(ctx context.Context, _ cloud.Class) (string, error) {
	if e, failed := a.unnamed.Known(struct{}{}); failed {
		return "", e
	}
	id, err := a.identity.Get(ctx, opIdentity, struct{}{}, func(ctx context.Context) (string, error) {
		var out *sts.GetCallerIdentityOutput
		e := a.send(ctx, opIdentity, func() (err error) {
			out, err = a.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
			return err
		})
		switch {
		case e != nil:
			a.unnamed.Put(struct{}{}, e)
			return "", e
		case awssdk.ToString(out.Account) == "":
			return "", cloud.Errorf(cloud.Unavailable, opIdentity, "BrokenAnswer", "the answer of STS names no account")
		}
		return *out.Account, nil
	})
	if err != nil {
		return "", err
	}
	return "account " + id + ", region " + a.region, nil
}

// inRegion fails if a providerID names another region, or a zone of one: there is no such instance in this
// one, which must not mean that it is gone.
func (a *account) inRegion(op, providerID string) error {
	place, _, found := strings.Cut(strings.TrimPrefix(providerID, providerIDScheme+"/"), "/")
	if !found || place == "" || strings.HasPrefix(place, a.region) {
		return nil
	}
	return cloud.WrongScope(op, "region or zone "+place, "region "+a.region)
}
