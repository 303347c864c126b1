package openstack

import (
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

const (
	testURL  = "https://keystone.example.com/v3"
	testUser = "auth_url: https://keystone.example.com, username: u, password: p"
)

// process is an environment with these variables and files.
func process(variables, files map[string]string) *environment {
	return &environment{
		get: func(name string) string { return variables[name] },
		open: func(path string) ([]byte, error) {
			text, there := files[path]
			if !there {
				return nil, errors.New("no such file")
			}
			return []byte(text), nil
		},
	}
}

func secret(entries map[string]string) cloud.Credentials {
	c := cloud.Credentials{"userData": []byte("x")}
	for k, v := range entries {
		c[k] = []byte(v)
	}
	return c
}

func TestLogin(t *testing.T) {
	t.Parallel()
	scope := func(s gophercloud.AuthScope) *gophercloud.AuthScope { return &s }
	user := gophercloud.AuthOptions{
		IdentityEndpoint: testURL + "/", Username: "u", Password: "p", DomainName: "d",
		Scope: scope(gophercloud.AuthScope{ProjectName: "t", DomainName: "d"}),
	}
	changed := func(f func(o *gophercloud.AuthOptions)) gophercloud.AuthOptions { o := user; f(&o); return o }
	base := map[string]string{"authURL": testURL, "username": "u", "password": "p", "domainName": "d", "tenantName": "t"}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range []map[string]string{base, more} {
			maps.Copy(all, m)
		}
		return all
	}
	variables := map[string]string{
		"OS_AUTH_URL": testURL, "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_DOMAIN_NAME": "d", "OS_PROJECT_NAME": "t",
	}
	cases := map[string]struct {
		reason  string
		secret  map[string]string
		process *environment
		want    gophercloud.AuthOptions
	}{
		"password": {"as MCM documents it", base, nil, user},
		"domain by id": {
			"MCM drops it", with(map[string]string{"domainName": "", "domainID": "i"}), nil,
			changed(func(o *gophercloud.AuthOptions) {
				o.DomainName, o.DomainID, o.Scope = "", "i", scope(gophercloud.AuthScope{ProjectName: "t", DomainID: "i"})
			}),
		},
		"domain of the user": {
			"MCM drops it", with(map[string]string{"userDomainName": "v"}), nil,
			changed(func(o *gophercloud.AuthOptions) { o.DomainName = "v" }),
		},
		"ids beside names": {
			"MCM takes the names", with(map[string]string{"tenantID": "i", "domainID": "i"}), nil, user,
		},
		"password with white space": {"MCM takes it off", with(map[string]string{"password": " p \n"}), nil, user},
		"project by id": {
			"MCM drops it", with(map[string]string{"tenantName": "", "tenantID": "i"}), nil,
			changed(func(o *gophercloud.AuthOptions) {
				o.Scope = scope(gophercloud.AuthScope{ProjectID: "i"})
			}),
		},
		"application credential": {
			"nothing else is needed",
			map[string]string{
				"authURL": testURL + "/", "applicationCredentialID": "a",
				"applicationCredentialSecret": "s\n",
			},
			nil,
			gophercloud.AuthOptions{
				IdentityEndpoint: testURL + "/", ApplicationCredentialID: "a",
				ApplicationCredentialSecret: "s",
			},
		},
		"named application credential": {
			"MCM tries a password then",
			map[string]string{
				"authURL": testURL, "username": "u", "domainName": "d", "tenantName": "t",
				"applicationCredentialName": "a", "applicationCredentialSecret": "s",
			},
			nil,
			gophercloud.AuthOptions{
				IdentityEndpoint: testURL + "/", Username: "u", DomainName: "d",
				ApplicationCredentialName: "a", ApplicationCredentialSecret: "s",
			},
		},
		"only cloud of a clouds.yaml": {
			"one needs no name", map[string]string{"clouds.yaml": "clouds: {a: {auth: {" + testUser +
				", domain_name: d, project_name: t}}}"}, nil, user,
		},
		"named cloud of a clouds.yaml": {
			"several need one",
			map[string]string{"cloud": "b", "clouds.yaml": "clouds: {a: {}, b: {auth: {" + testUser +
				", user_domain_name: d, project_domain_name: d, tenant_name: t}}}"},
			nil, user,
		},
		"environment": {"the Secret says nothing", nil, process(variables, nil), user},
		"environment with a Secret": {
			"the Secret counts", with(map[string]string{"username": "w"}), process(variables, nil),
			changed(func(o *gophercloud.AuthOptions) {
				o.Username = "w"
			}),
		},
		"OS_CLOUD": {
			"a file of the process", nil,
			process(map[string]string{"OS_CLOUD": "a", "HOME": "/h"},
				map[string]string{"/h/.config/openstack/clouds.yaml": "clouds: {a: {auth: {" + testUser +
					", domain_name: d, project_name: t}}}"}),
			user,
		},
	}
	for name, c := range cases {
		l := loginOf(secret(c.secret), c.process)
		if len(l.problems) > 0 {
			t.Errorf("%s: problems %v\nbecause: %s", name, l.problems, c.reason)
		}
		if diff := cmp.Diff(c.want, l.authOptions()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s\nbecause: %s", name, diff, c.reason)
		}
	}
}

func TestLoginProblems(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		secret  map[string]string
		process *environment
		field   string
	}{
		"nothing":           {"the environment does not count", nil, nil, "secret.authURL"},
		"empty environment": {"it says nothing either", nil, process(nil, nil), "secret.authURL"},
		"OS_CLOUD, no file": {
			"there is no clouds.yaml", nil, process(map[string]string{"OS_CLOUD": "a"}, nil),
			"environment.OS_CLOUD",
		},
		"OS_CACERT, no file": {"it names one", nil, process(map[string]string{"OS_AUTH_URL": testURL, "OS_CACERT": "/x"},
			nil), "environment.OS_CACERT"},
		"several clouds": {
			"nobody says which",
			map[string]string{"clouds.yaml": "clouds: {a: {}, b: {}}"},
			nil,
			"secret.clouds.yaml",
		},
		"user in the URL": {
			"it would be shown",
			map[string]string{"authURL": "https://u:p@keystone/v3"},
			nil,
			"secret.authURL",
		},
	}
	for name, c := range cases {
		l := loginOf(secret(c.secret), c.process)
		found := false
		for _, p := range l.problems {
			found = found || p.Field == c.field
		}
		if !found {
			t.Errorf("%s: got %v, want a problem with %s\nbecause: %s", name, l.problems, c.field, c.reason)
		}
	}
}

func TestCloudsYAMLOfASecretReadsNoFiles(t *testing.T) {
	t.Parallel()
	l := loginOf(secret(map[string]string{"clouds.yaml": "clouds: {a: {cacert: /etc/hostname, verify: false, interface: " +
		"internal, auth: {" + testUser + ", domain_name: d, project_name: t}}}"}), nil)
	if len(l.ca) > 0 || len(l.problems) > 0 {
		t.Errorf("got CA %q and problems %v, want none: files are the manager's", l.ca, l.problems)
	}
	if !l.insecure || l.endpoints != gophercloud.AvailabilityInternal {
		t.Errorf("got insecure %v and endpoints %q, want what it says", l.insecure, l.endpoints)
	}
}

// TestOfflineAmbient: the environment of whoever judges a Secret is not that of the manager.
func TestOfflineAmbient(t *testing.T) {
	t.Setenv("OS_CLOUD", "nowhere")
	d := Offline(Options{Ambient: true})
	if found := d.CheckSecret(cloud.Class{}, cloud.Credentials{"userData": []byte("x")}); len(found) > 0 {
		t.Errorf("a Secret without credentials: %v", found)
	}
	if found := d.CheckSecret(cloud.Class{}, cloud.Credentials{"username": []byte("u")}); len(found) == 0 {
		t.Error("half of the credentials are no problem")
	}
}
