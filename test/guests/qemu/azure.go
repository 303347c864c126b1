package qemu

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
)

const (
	// wireIP is where Azure's fabric tells guests what it wants of them, and hears how they are.
	wireIP = "168.63.129.16"

	// chassis is the asset tag by which a guest knows that it is a VM of Azure.
	chassis = "7783-7084-3265-9085-8269-3286-77"

	// azureID is the VM's, which the guest reads from its firmware.
	azureID = "a2c40000-0000-4000-8000-000000000001"
)

// Azure is a provisioning disk with custom data, the instance metadata service, and the fabric, to
// which a guest reports that it is ready.
func Azure(name string, customData []byte) Source {
	return Source{
		metadata: azureMetadata(name), services: map[string]http.Handler{wireIP: azureFabric()},
		args: func(g *Guest) []string {
			return append(g.volume("rd_rdfe_stable", map[string][]byte{"ovf-env.xml": provisioning(name, customData)}),
				"-uuid", azureID, "-smbios", "type=1,manufacturer=Microsoft Corporation,product=Virtual Machine,uuid="+azureID,
				"-smbios", "type=3,manufacturer=Microsoft Corporation,asset="+chassis)
		},
	}
}

// provisioning is what Azure's provisioning disk says.
func provisioning(name string, customData []byte) []byte {
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="utf-8"?>
<ns0:Environment xmlns:ns0="http://schemas.dmtf.org/ovf/environment/1"
    xmlns:ns1="http://schemas.microsoft.com/windowsazure">
  <ns1:ProvisioningSection>
    <ns1:Version>1.0</ns1:Version>
    <ns1:LinuxProvisioningConfigurationSet>
      <ns1:ConfigurationSetType>LinuxProvisioningConfiguration</ns1:ConfigurationSetType>
      <ns1:UserName>core</ns1:UserName>
      <ns1:DisableSshPasswordAuthentication>true</ns1:DisableSshPasswordAuthentication>
      <ns1:HostName>%s</ns1:HostName>
      <ns1:CustomData>%s</ns1:CustomData>
    </ns1:LinuxProvisioningConfigurationSet>
  </ns1:ProvisioningSection>
  <ns1:PlatformSettingsSection>
    <ns1:Version>1.0</ns1:Version>
    <ns1:PlatformSettings><ns1:PreprovisionedVm>false</ns1:PreprovisionedVm></ns1:PlatformSettings>
  </ns1:PlatformSettingsSection>
</ns0:Environment>
`, html.EscapeString(name), base64.StdEncoding.EncodeToString(customData))
}

// azureMetadata answers as the instance metadata service does, which wants a header.
func azureMetadata(name string) http.Handler {
	type object = map[string]any
	instance := object{
		"compute": object{
			"vmId": azureID, "name": name, "location": "westeurope",
			"osProfile": object{"computerName": name, "adminUsername": "core", "disablePasswordAuthentication": "true"},
		},
		"network": object{"interface": []any{object{
			"macAddress": "525400123456",
			"ipv4": object{
				"ipAddress": []any{object{"privateIpAddress": "10.0.2.15"}},
				"subnet":    []any{object{"address": "10.0.2.0", "prefix": "24"}},
			},
			"ipv6": object{"ipAddress": []any{}},
		}}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metadata/instance", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata") != "true" {
			http.Error(w, "header Metadata is missing", http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(instance)
	})
	return mux
}

// azureFabric wants nothing but to hear of the guest.
func azureFabric() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machine/", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<GoalState><Version>2015-04-05</Version><Incarnation>1</Incarnation><Container>"+
			"<ContainerId>"+azureID+"</ContainerId><RoleInstanceList><RoleInstance><InstanceId>"+azureID+
			"</InstanceId></RoleInstance></RoleInstanceList></Container></GoalState>")
	})
	mux.HandleFunc("POST /machine", func(http.ResponseWriter, *http.Request) {})
	return mux
}
