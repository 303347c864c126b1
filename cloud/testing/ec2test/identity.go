package ec2test

import (
	"encoding/xml"
	"maps"
	"net/http"
	"strings"
)

// identityVersion is the version of the API of STS.
const identityVersion = "2011-06-15"

// The access key of another account, in which nothing is.
const (
	OtherKeyID     = "AKIAEXAMPLEOTHER"
	OtherSecretKey = "the/other+secret/of/ec2test"
)

// isOther reports whether a request is one of the other account. The lock is held.
func (c *Cloud) isOther(r *http.Request) bool {
	_, itself := c.settings.Accounts[OtherKeyID]
	if itself || !strings.Contains(r.Header.Get("Authorization"), "Credential="+OtherKeyID+"/") {
		return false
	}
	if c.other == nil {
		s := c.settings
		s.Accounts, s.AccountID = map[string]string{OtherKeyID: OtherSecretKey}, "210987654321"
		s.Subnets = maps.Clone(s.Subnets)
		c.other = New(s, c.now)
	}
	return true
}

// identity answers GetCallerIdentity, which needs no permission.
func (c *Cloud) identity(f params) (any, error) {
	if f.Get("Action") != "GetCallerIdentity" {
		return nil, fail("InvalidAction", "Could not find operation %s", f.Get("Action"))
	}
	return struct {
			XMLName xml.Name `xml:"GetCallerIdentityResponse"`
			Arn     string   `xml:"GetCallerIdentityResult>Arn"`
			UserID  string   `xml:"GetCallerIdentityResult>UserId"`
			Account string   `xml:"GetCallerIdentityResult>Account"`
		}{
			Arn: "arn:aws:iam::" + c.settings.AccountID + ":user/machines", UserID: "AIDAEXAMPLE",
			Account: c.settings.AccountID,
		},
		nil
}
