package class

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// judgeLogin finds out what the class logs in with, or what is wrong with that: an entry is missing,
// or the Secrets have parts of one login. Then whoever writes the one Secret would choose where the
// credentials of the other are sent, so nothing is logged in with, and Alternatives are what may
// delete VMs. MCM merges the Secrets; natively, within one namespace, that stays, with a warning.
// gone are the Secrets that are not there, problems those of the spec.
func (r *Resolver) judgeLogin(out *Resolved, gone, problems []cloud.Problem) findings {
	var found findings
	mixed := mixture(out.Driver.Traits(), out.parts, out.Credentials)
	oneNamespace := mixed != "" && out.parts[0].Key.Namespace == out.parts[1].Key.Namespace
	if mixed != "" && (out.clusterAPI || !oneNamespace) {
		found.add(machinev1.ReasonInvalidSecret, cloud.Problem{
			Severity: cloud.BlocksAll, Field: out.parts[1].Field, Message: mixed + "; put them all into one of the two, or " +
				"whoever writes the other would choose where these credentials are sent",
		})
		found.add(machinev1.ReasonSecretNotFound, gone...)
		out.Alternatives = r.alternatives(*out, problems, oneNamespace && out.parts[0].Key.Namespace == out.Object.Namespace)
		maps.DeleteFunc(out.Credentials, func(key string, _ []byte) bool { return !cloud.IsBootData(key) })
		return found
	}
	lacking := out.Driver.CheckSecret(out.Class, out.Credentials)
	if worst(lacking) == cloud.BlocksAll {
		// The entries are missing because the Secret is, so that is what to say.
		for i := range gone {
			gone[i].Severity = cloud.BlocksAll
		}
	}
	found.add(machinev1.ReasonSecretNotFound, gone...)
	if len(lacking) > 0 { // what masks is not made for each look at a class
		lacking = cloud.RedactorOf(out.Driver, out.Credentials).Problems(lacking)
	}
	found.add(machinev1.ReasonInvalidSecret, lacking...)
	if mixed != "" {
		found.add(machinev1.ReasonInvalidSecret, cloud.Problem{
			Severity: cloud.Warning, Field: out.parts[1].Field, Message: mixed + "; they are merged, as by MCM, which " +
				"Cluster API machines refuse; put them all into one of the two",
		})
	}
	return found
}

// mixture says which entries of one login the Secrets have, if no Secret has them all; else it is
// empty. Entries of equal value are of both, those without value of none.
func mixture(t cloud.Traits, parts []part, merged cloud.Credentials) string {
	login := loginIn(t, merged)
	var gives []string
	for _, p := range parts {
		var keys []string
		for key, value := range login {
			if there, has := p.data[key]; has && bytes.Equal(there, value) {
				keys = append(keys, key)
			}
		}
		if len(keys) == len(login) {
			return ""
		}
		slices.Sort(keys)
		gives = append(gives, fmt.Sprintf("Secret %s (%s) gives %s", p.Key, p.Field, strings.Join(keys, ", ")))
	}
	if len(gives) == 0 {
		return ""
	}
	return strings.Join(gives, " and ") + " of one login"
}

// loginIn are the entries with a value that say where the driver logs in, and with what.
func loginIn(t cloud.Traits, creds cloud.Credentials) cloud.Credentials {
	login := cloud.Credentials{}
	for key, value := range creds {
		if len(bytes.TrimSpace(value)) > 0 && (t.IsAddress(key) || t.IsCredential(key)) {
			login[key] = value
		}
	}
	return login
}

// alternatives are the class with the login of one of its Secrets, credentialsSecretRef's first. If
// neither is whole, and both are of the class's namespace, it is what MCM would log in with: VMs may
// exist that were made so.
func (r *Resolver) alternatives(of Resolved, problems []cloud.Problem, ownNamespace bool) []Resolved {
	var found []Resolved
	with := func(creds cloud.Credentials, from string) {
		var all findings
		lacking := of.Driver.CheckSecret(of.Class, creds)
		all.add(machinev1.ReasonInvalidSecret, cloud.RedactorOf(of.Driver, creds).Problems(lacking)...)
		all.add(machinev1.ReasonInvalidSpec, problems...)
		one := of
		one.Credentials, one.from = creds, from
		one.Problems, one.reasons = all.sorted()
		one.Account = r.account(one)
		if one.Err(cloud.BlocksAll) == nil {
			found = append(found, one)
		}
	}
	for _, p := range slices.Backward(of.parts) {
		if len(loginIn(of.Driver.Traits(), p.data)) > 0 {
			with(p.data, "Secret "+p.Key.String()+" alone")
		}
	}
	if len(found) == 0 && ownNamespace {
		of.merged = true
		with(maps.Clone(of.Credentials), "both Secrets")
	}
	return found
}

// Name names the class for messages, with the Secret where it is one of Alternatives.
func (r Resolved) Name() string {
	if r.from == "" {
		return fmt.Sprintf("%q", r.name)
	}
	return fmt.Sprintf("%q and %s", r.name, r.from)
}
