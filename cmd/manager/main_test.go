package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/clouds"
)

func TestParse(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		args   []string
		err    string // part of the error; empty is none
		out    []string
	}{
		"None": {reason: "everything has a default"},
		"Help": {
			reason: "the program is named as it was called", args: []string{"--help"}, err: pflag.ErrHelp.Error(),
			out: []string{"machine-controller-manager runs the controllers of " + binary + ".", "--namespace", "--version"},
		},
		"Version": {
			reason: "the version is that of the linker", args: []string{"--version"}, err: pflag.ErrHelp.Error(),
			out: []string{binary + "/devel\n"},
		},
		"Unknown":  {"a flag that does not exist", []string{"--nope"}, "--nope", nil},
		"Argument": {"something that is no flag", []string{"start"}, `"start" is not a flag`, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			_, err := parse("machine-controller-manager", tc.args, &out)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
			}
			for _, want := range tc.out {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s: it prints %q, want %q in it", tc.reason, out.String(), want)
				}
			}
		})
	}
}

// TestRun: help is no failure, and an option that is not valid is one.
func TestRun(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), binary, []string{"--help"}, &out); err != nil {
		t.Errorf("--help ends with %v", err)
	}
	err := run(t.Context(), binary, []string{"--port=0"}, &out)
	if err == nil || errors.Is(err, pflag.ErrHelp) || !strings.Contains(err.Error(), "--port") {
		t.Errorf("--port=0 ends with %v", err)
	}
}

// TestTokenFolders: a Secret names a file of another folder only where the operator says so.
func TestTokenFolders(t *testing.T) {
	t.Parallel()
	creds := cloud.Credentials{
		"workloadIdentityTokenFile": []byte("/srv/tokens/aws"), "roleARN": []byte("arn:aws:iam::123456789012:role/r"),
		"subscriptionID": []byte("s"), "tenantID": []byte("t"), "clientID": []byte("c"),
	}
	for args, opened := range map[string]bool{"": false, "--token-folders=/srv/other,/srv/tokens": true} {
		o, err := parse(binary, strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range append(clouds.Drivers(o.drivers), clouds.Offline(o.drivers)...) {
			if name := d.Traits().Name; name != aws.ProviderName && name != azure.ProviderName {
				continue
			}
			if problems := d.CheckSecret(cloud.Class{}, creds); (len(problems) == 0) != opened {
				t.Errorf("%q, %s: %v", args, d.Traits().Name, problems)
			}
		}
	}
	if _, err := parse(binary, []string{"--token-folders=tokens"}, io.Discard); err == nil ||
		!strings.Contains(err.Error(), `"tokens" is no absolute path`) {
		t.Errorf("a folder that depends on the working one: %v", err)
	}
}

// TestAmbientCredentials: no class uses the identity of the manager unless its
// operator says so.
func TestAmbientCredentials(t *testing.T) {
	t.Parallel()
	for args, lent := range map[string]bool{"": false, "--ambient-credentials": true} {
		o, err := parse(binary, strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range clouds.Drivers(o.drivers) {
			if d.Traits().Name != aws.ProviderName {
				continue
			}
			if problems := d.CheckSecret(cloud.Class{}, cloud.Credentials{}); (len(problems) == 0) != lent {
				t.Errorf("%q: a Secret without credentials: %v", args, problems)
			}
		}
	}
}
