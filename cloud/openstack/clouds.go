package openstack

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
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
		Token             string `yaml:"token"`
	} `yaml:"auth"`
	Interface    string `yaml:"interface"`
	EndpointType string `yaml:"endpoint_type"`
	Verify       *bool  `yaml:"verify"`
	CACert       string `yaml:"cacert"` // a file, as are the next two
	ClientCert   string `yaml:"cert"`
	ClientKey    string `yaml:"key"`
}

// SecretsIn returns the passwords, secrets and tokens of all clouds of a clouds.yaml. The rest of it
// only names something.
func (judge) SecretsIn(key string, value []byte) (secrets []string, ok bool) {
	var doc struct {
		Clouds map[string]cloudEntry `yaml:"clouds"`
	}
	if key != keyCloudsYAML || yaml.Unmarshal(value, &doc) != nil || len(doc.Clouds) == 0 {
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Clouds)) {
		a := doc.Clouds[name].Auth
		secrets = append(secrets, a.Password, a.AppSecret, a.Token)
	}
	return secrets, true
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
	if l.password+l.secret == "" {
		l.token = a.Token
	}
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

// environment is that of the process.
type environment struct {
	get  func(name string) string
	open func(path string) ([]byte, error)
}

func ownEnvironment() *environment {
	return &environment{get: os.Getenv, open: func(path string) ([]byte, error) {
		return os.ReadFile(filepath.Clean(path))
	}}
}

// readEnvironment takes the variables of OpenStack's own clients: OS_CLOUD with
// a clouds.yaml, else OS_AUTH_URL and those that go with it.
func (l *login) readEnvironment(e environment) {
	if name := e.get("OS_CLOUD"); name != "" {
		text, ok := e.cloudsYAML()
		if !ok {
			l.problems = append(l.problems, cloud.Problem{
				Severity: cloud.BlocksAll, Field: "environment.OS_CLOUD",
				Message: "is set, but there is no clouds.yaml that can be read; name one in OS_CLIENT_CONFIG_FILE",
			})
			return
		}
		l.readClouds("environment.OS_CLOUD", text, name, e.open)
		return
	}
	c := cloudEntry{Interface: e.get("OS_INTERFACE"), EndpointType: e.get("OS_ENDPOINT_TYPE")}
	a := &c.Auth
	a.AuthURL, a.Username, a.UserID, a.Password = e.get(
		"OS_AUTH_URL"), e.get("OS_USERNAME"), e.get("OS_USER_ID"), e.get("OS_PASSWORD")
	a.ProjectName, a.ProjectID = cmp.Or(e.get("OS_PROJECT_NAME"), e.get("OS_TENANT_NAME")), cmp.Or(e.get("OS_PROJECT_ID"),
		e.get("OS_TENANT_ID"))
	a.UserDomainName, a.UserDomainID = e.get("OS_USER_DOMAIN_NAME"), e.get("OS_USER_DOMAIN_ID")
	a.ProjectDomainName, a.ProjectDomainID = e.get("OS_PROJECT_DOMAIN_NAME"), e.get("OS_PROJECT_DOMAIN_ID")
	a.DomainName, a.DomainID, a.DefaultDomain = e.get("OS_DOMAIN_NAME"), e.get("OS_DOMAIN_ID"), e.get("OS_DEFAULT_DOMAIN")
	a.AppID, a.AppName = e.get("OS_APPLICATION_CREDENTIAL_ID"), e.get("OS_APPLICATION_CREDENTIAL_NAME")
	a.AppSecret, a.Token = e.get("OS_APPLICATION_CREDENTIAL_SECRET"), e.get("OS_TOKEN")
	l.readCloud(c)
	l.insecure = e.get("OS_INSECURE") == "true" || e.get("OS_INSECURE") == "1"
	for name, into := range map[string]*[]byte{"OS_CACERT": &l.ca, "OS_CERT": &l.cert, "OS_KEY": &l.key} {
		path := e.get(name)
		if path == "" {
			continue
		}
		var err error
		if *into, err = e.open(path); err != nil {
			l.problems = append(l.problems, cloud.Problem{
				Severity: cloud.BlocksAll, Field: "environment." + name,
				Message: "names a file that cannot be read",
			})
		}
	}
}

// cloudsYAML returns the first clouds.yaml where OpenStack's clients look for it.
func (e environment) cloudsYAML() ([]byte, bool) {
	const name = "clouds.yaml"
	places := []string{name, filepath.Join(cmp.Or(e.get("XDG_CONFIG_HOME"), filepath.Join(e.get("HOME"), ".config")),
		"openstack", name), filepath.Join("/etc/openstack", name)}
	if own := e.get("OS_CLIENT_CONFIG_FILE"); own != "" {
		places = []string{own}
	}
	for _, place := range places {
		if text, err := e.open(place); err == nil {
			return text, true
		}
	}
	return nil, false
}
