package aws

import (
	"crypto/sha256"
	"fmt"
	"regexp"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// roleSpec is a role that the credentials of the Secret are exchanged for, e.g. one of
// another AWS account.
type roleSpec struct {
	ARN        string `json:"arn"`
	ExternalID string `json:"externalID"` // that the role's owner demands; empty for none
}

var (
	roleARN    = regexp.MustCompile(`^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$`)
	externalID = regexp.MustCompile(`^[\w+=,.@:/-]+$`)
)

// validateRole checks the role, without which nothing can be called.
func (s *spec) validateRole() {
	r := s.AssumeRole
	if r == nil || s.Wrong("assumeRole") {
		return
	}
	const form = "the ARN of a role, e.g. arn:aws:iam::123456789012:role/machines"
	s.Require(cloud.BlocksAll, "assumeRole.arn", r.ARN, "name "+form)
	s.Matches(cloud.BlocksAll, "assumeRole.arn", r.ARN, roleARN, form)
	const least, most = 2, 1224
	if n := len(r.ExternalID); n > 0 && (n < least || n > most || !externalID.MatchString(r.ExternalID)) {
		s.Problems.Add(cloud.BlocksAll, "assumeRole.externalID",
			"has to have 2 to 1224 characters, letters, digits and +=,.@:/-; write it as the owner of the role gave it to you")
	}
}

// endpoint tells accounts with equal credentials apart. An external id is shown as a
// hash only.
func (s *spec) endpoint() string {
	if s.AssumeRole == nil {
		return s.Region
	}
	return fmt.Sprintf("%s/%s/%x", s.Region, s.AssumeRole.ARN, sha256.Sum256([]byte(s.AssumeRole.ExternalID)))
}

// assume returns credentials of the role, which are fetched with those of cfg when they
// are needed.
func (r *roleSpec) assume(cfg awssdk.Config) awssdk.CredentialsProvider {
	return awssdk.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), r.ARN,
		func(o *stscreds.AssumeRoleOptions) {
			o.RoleSessionName, o.ExternalID = sessionPrefix, set(r.ExternalID)
		}))
}
