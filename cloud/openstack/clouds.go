package openstack

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"go.yaml.in/yaml/v3"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

var errNoCertificate = errors.New("no certificate in PEM")

// cloudEntry is one cloud of a clouds.yaml, as OpenStack's own clients read it.
type cloudEntry struct {
	Auth struct {
		AuthURL           string `yaml:"auth_url"`
		Username          string `yaml:"username"`
		UserID            string `yaml:"user_id"`
		Password          string `yaml:"password"`
		ProjectName       string `yaml:"project_name"`
		ProjectID         string `yaml:"project_id"`
		TenantName        string `yaml:"tenant_name"`
		TenantID          string `yaml:"tenant_id"`
		UserDomainName    string `yaml:"user_domain_name"`
		UserDomainID      string `yaml:"user_domain_id"`
		ProjectDomainName string `yaml:"project_domain_name"`
		ProjectDomainID   string `yaml:"project_domain_id"`
		DomainName        string `yaml:"domain_name"`
		DomainID          string `yaml:"domain_id"`
		DefaultDomain     string `yaml:"default_domain"`
		AppID             string `yaml:"application_credential_id"`
		AppName           string `yaml:"application_credential_name"`
		AppSecret         string `yaml:"application_credential_secret"`
	} `yaml:"auth"`
	Interface    string `yaml:"interface"`
	EndpointType string `yaml:"endpoint_type"`
	Verify       *bool  `yaml:"verify"`
	CACert       string `yaml:"cacert"` // a file, as are the next two
	ClientCert   string `yaml:"cert"`
	ClientKey    string `yaml:"key"`
}

// readClouds takes a cloud of a clouds.yaml; without a name the only one. Files
// that it names are read with open; nil means that it may name none.
func (l *login) readClouds(field string, text []byte, name string, open func(path string) ([]byte, error)) {
	bad := func(message string) {
		l.problems = append(l.problems, cloud.Problem{Severity: cloud.BlocksAll, Field: field, Message: message})
	}
	entry, problem := choose(text, name)
	if problem != "" {
		bad(problem)
		return
	}
	l.readCloud(entry)
	if open == nil {
		return // the Secret says it in entries of its own
	}
	for path, into := range map[string]*[]byte{entry.CACert: &l.ca, entry.ClientCert: &l.cert, entry.ClientKey: &l.key} {
		if path == "" {
			continue
		}
		var err error
		if *into, err = open(path); err != nil {
			bad("names a file with a certificate or key that cannot be read")
		}
	}
}

// choose returns the cloud of a clouds.yaml that is meant, or what is wrong.
func choose(text []byte, name string) (entry cloudEntry, problem string) {
	var doc struct {
		Clouds map[string]cloudEntry `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return entry, "is no clouds.yaml; write YAML with an entry under clouds" // the error may quote it
	}
	names := slices.Sorted(maps.Keys(doc.Clouds))
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	entry, there := doc.Clouds[name]
	switch {
	case len(names) == 0:
		problem = "has no cloud; write one under clouds"
	case name == "":
		problem = "has several clouds; say which one is meant, in a Secret with the entry " + keyCloud
	case !there:
		problem = "has no cloud of the name that is asked for; it has " + strings.Join(names, ", ")
	}
	return entry, problem
}

// readCloud takes what one cloud says.
func (l *login) readCloud(c cloudEntry) {
	a := c.Auth
	l.authURL, l.user, l.userID, l.password = a.AuthURL, a.Username, a.UserID, a.Password
	l.project, l.projectID = cmp.Or(a.ProjectName, a.TenantName), cmp.Or(a.ProjectID, a.TenantID)
	l.userDomain, l.userDomID = cmp.Or(a.UserDomainName, a.DomainName), cmp.Or(a.UserDomainID, a.DomainID)
	l.domain, l.domainID = cmp.Or(a.ProjectDomainName, a.DomainName), cmp.Or(a.ProjectDomainID, a.DomainID)
	if l.userDomain+l.userDomID == "" {
		l.userDomID = a.DefaultDomain
	}
	if l.domain+l.domainID == "" {
		l.domainID = a.DefaultDomain
	}
	l.appID, l.appName, l.secret = a.AppID, a.AppName, a.AppSecret
	l.insecure = c.Verify != nil && !*c.Verify
	l.endpoints = availability(cmp.Or(c.Interface, c.EndpointType))
}

// availability is which of a service's endpoints are called.
func availability(name string) gophercloud.Availability {
	switch strings.TrimSuffix(strings.ToLower(name), "url") {
	case "internal":
		return gophercloud.AvailabilityInternal
	case "admin":
		return gophercloud.AvailabilityAdmin
	}
	return interfaceDefault
}
