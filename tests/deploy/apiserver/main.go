// An API server of Kubernetes, as it is: nobody ships the program through a registry, but its module is there.
// Every staging module has to be replaced by its release, since the module of Kubernetes names none (go.mod).
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
