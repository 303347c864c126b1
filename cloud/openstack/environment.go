package openstack

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

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
	a.AppSecret = e.get("OS_APPLICATION_CREDENTIAL_SECRET")
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
