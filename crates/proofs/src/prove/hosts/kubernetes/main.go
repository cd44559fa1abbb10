// Package main is the programs of a Kubernetes cluster in one: the first argument names the one to run. All but the
// kubelet are those of Kubernetes. The kubelet only serves `kubectl exec`, by Kubernetes' own code for streams, and
// starts the commands of every pod by one program.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	utilexec "k8s.io/utils/exec"
)

func main() {
	if len(os.Args) < 2 {
		refuse("usage: cluster PROGRAM [ARGUMENT...]")
	}
	os.Args = os.Args[1:]
	switch os.Args[0] {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(manager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "kubelet":
		if len(os.Args) != 5 {
			refuse("usage: cluster kubelet ADDRESS CERTIFICATE KEY PROGRAM")
		}
		refuse(serve(os.Args[1], os.Args[2], os.Args[3], entrance(os.Args[4])))
	default:
		refuse("there is no program " + os.Args[0])
	}
}

func refuse(reason any) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(64)
}

// serve answers POST and GET of /exec/NAMESPACE/POD/CONTAINER?command=WORD&command=WORD...
func serve(address, certificate, key string, by entrance) error {
	handler := func(answer http.ResponseWriter, request *http.Request) {
		path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
		if len(path) != 4 || path[0] != "exec" {
			http.NotFound(answer, request)
			return
		}
		options, err := remotecommand.NewOptions(request)
		if err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(answer, request, by, path[2], "", path[3], request.URL.Query()["command"], options,
			4*time.Hour, 30*time.Second, remotecommand.SupportedStreamingProtocols)
	}
	server := http.Server{
		Addr:    address,
		Handler: http.HandlerFunc(handler),
		// Streams are upgraded connections of HTTP/1.1.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	return server.ListenAndServeTLS(certificate, key)
}

// entrance is the program that gets the words of a command.
type entrance string

// ExecInContainer runs a command to its end. As with a container runtime, the command gets the end of its input when the
// stream ends, and is not killed.
func (by entrance) ExecInContainer(_ context.Context, _, _, _ string, words []string, in io.Reader,
	out, failed io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	command := exec.Command(string(by), words...)
	if out != nil {
		command.Stdout = out
	}
	if failed != nil {
		command.Stderr = failed
	}
	if in != nil {
		input, err := command.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(input, in)
			_ = input.Close()
		}()
	}
	err := command.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return utilexec.CodeExitError{Err: err, Code: ended.ExitCode()}
	}
	return err
}
