package openstack_test

import (
	"encoding/json"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

func secrets() []cloudtest.Secret {
	set := func(entries ...string) func(cloud.Credentials) cloud.Credentials {
		return func(c cloud.Credentials) cloud.Credentials {
			for i := 0; i < len(entries); i += 2 {
				if c[entries[i]] = []byte(entries[i+1]); entries[i+1] == "" {
					delete(c, entries[i])
				}
			}
			return c
		}
	}
	change := func(key string, f func(string) string) func(cloud.Credentials) cloud.Credentials {
		return func(c cloud.Credentials) cloud.Credentials { c[key] = []byte(f(string(c[key]))); return c }
	}
	spaced := func(v string) string { return " " + v + "\n" }
	return []cloudtest.Secret{
		{Name: "as documented", Reason: "it is", Credentials: set()},
		{
			Name: "ids of the domain", Reason: "MCM validates domainID and then drops it",
			Credentials: set("domainName", "", "domainID", "default"),
		},
		{Name: "domain of the user by name", Reason: "MCM drops it", Credentials: set("userDomainName", "Default")},
		{Name: "domain of the user by id", Reason: "MCM drops it", Credentials: set("userDomainID", "default")},
		{Name: "explicitly secure", Reason: "MCM knows it", Credentials: set("insecure", "false")},
		{Name: "insecure", Reason: "MCM knows it", Credentials: set("insecure", "true")},
		{
			Name: "URL without version", Reason: "Keystone has only one left",
			Credentials: change("authURL", func(u string) string { return strings.TrimSuffix(u, "/v3") }),
		},
		{Name: "URL with white space", Reason: "base64 of echo leaves it", Credentials: change("authURL", spaced)},
		{Name: "user with white space", Reason: "base64 of echo leaves it", Credentials: change("username", spaced)},
		{
			Name: "password with a newline", Reason: "base64 of echo leaves it",
			Credentials: change("password", func(p string) string { return p + "\n" }),
		},
		{
			Name: "clouds.yaml", Reason: "that is how OpenStack's own clients have it",
			Credentials: func(c cloud.Credentials) cloud.Credentials {
				text, _ := json.Marshal(map[string]any{"clouds": map[string]any{"a": map[string]any{"auth": map[string]string{
					"auth_url": string(c["authURL"]), "username": string(c["username"]), "password": string(c["password"]),
					"project_name": string(c["tenantName"]), "user_domain_name": "Default", "project_domain_id": "default",
				}, "interface": "public"}}})
				return cloud.Credentials{"clouds.yaml": text, "cloud": []byte("a")}
			},
		},
		{Name: "no URL", Reason: "nobody to call", Credentials: set("authURL", ""), Missing: "secret.authURL"},
		{Name: "no scheme", Reason: "no URL", Credentials: set("authURL", "keystone:5000/v3"), Missing: "secret.authURL"},
		{Name: "no user", Reason: "nobody calls", Credentials: set("username", " "), Missing: "secret.username"},
		{Name: "no password", Reason: "nobody calls", Credentials: set("password", ""), Missing: "secret.password"},
		{Name: "no project", Reason: "nothing to call for", Credentials: set("tenantName", ""), Missing: "secret.tenantName"},
		{
			Name: "no domain", Reason: "a name is one in a domain", Credentials: set("domainName", ""),
			Missing: "secret.domainName",
		},
		{Name: "two secrets", Reason: "MCM allows one", Credentials: set("applicationCredentialSecret", "x",
			"applicationCredentialID", "y"), Missing: "secret.password"},
		{
			Name: "a token beside a password", Reason: "nobody knows which counts", Credentials: set("tokenID", "t"),
			Missing: "secret.tokenID",
		},
		{
			Name: "a token without project", Reason: "it may be for another one", Missing: "secret.tenantName",
			Credentials: set("password", "", "username", "", "tenantName", "", "tokenID", "t"),
		},
		{
			Name: "an application credential without secret", Reason: "nobody calls",
			Credentials: set("password", "", "applicationCredentialID", "y"), Missing: "secret.applicationCredentialSecret",
		},
		{
			Name: "an application credential without name", Reason: "MCM asks for id or name",
			Credentials: set("password", "", "applicationCredentialSecret", "y"), Missing: "secret.applicationCredentialID",
		},
		{
			Name: "a named application credential without user", Reason: "names are the user's",
			Credentials: set("password", "", "username", "", "applicationCredentialSecret", "y", "applicationCredentialName",
				"z"), Missing: "secret.username",
		},
		{
			Name: "insecure is a boolean", Reason: "MCM rejects it", Credentials: set("insecure", "yes"),
			Missing: "secret.insecure",
		},
		{Name: "no certificate", Reason: "nobody is trusted", Credentials: set("caCert", "x"), Missing: "secret.caCert"},
		{
			Name: "half a client certificate", Reason: "it is no use", Credentials: set("clientCert", "x"),
			Missing: "secret.clientCert",
		},
		{
			Name: "no clouds.yaml", Reason: "it has to be one", Credentials: set("clouds.yaml", "- x"),
			Missing: "secret.clouds.yaml",
		},
		{
			Name: "another cloud", Reason: "it is not there", Credentials: set("clouds.yaml", "clouds: {a: {}}", "cloud", "b"),
			Missing: "secret.clouds.yaml",
		},
	}
}
