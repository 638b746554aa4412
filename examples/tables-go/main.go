// Command tables-go is an example of a program in Go that uses cqld with the Azure SDK for Tables: entities, a filter,
// an optimistic update with an ETag, and a transaction.
//
// Start a ring with "cqld local", then run it: go run ./tables-go. CQLD_TABLES is the address of another node.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// The account of the development ring; it is the same as in Azurite.
const (
	account = "devstoreaccount1"
	key     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

func main() {
	endpoint := os.Getenv("CQLD_TABLES")
	if endpoint == "" {
		endpoint = "http://127.0.0.1:10002"
	}
	if err := run(context.Background(), endpoint); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, endpoint string) error {
	service, err := aztables.NewServiceClientFromConnectionString(fmt.Sprintf(
		"DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;TableEndpoint=%s/%s;",
		account, key, endpoint, account), nil)
	if err != nil {
		return err
	}
	orders := service.NewClient("ExampleOrders")
	if _, err := orders.CreateTable(ctx, nil); err != nil {
		var response *azcore.ResponseError
		if !errors.As(err, &response) || response.ErrorCode != string(aztables.TableAlreadyExists) {
			return err
		}
	}
	if err := addOrders(ctx, orders); err != nil {
		return err
	}
	if err := listOrders(ctx, orders); err != nil {
		return err
	}
	return updateOrder(ctx, orders)
}

// addOrders upserts the orders of one customer in one transaction: all of them have the same partition key.
func addOrders(ctx context.Context, orders *aztables.Client) error {
	var actions []aztables.TransactionAction
	for i, item := range []string{"lamp", "table", "chair"} {
		entity, err := json.Marshal(aztables.EDMEntity{
			Entity:     aztables.Entity{PartitionKey: "ada", RowKey: fmt.Sprintf("%03d", i+1)},
			Properties: map[string]any{"Item": item, "Pieces": int32(i + 1), "Paid": false},
		})
		if err != nil {
			return err
		}
		actions = append(actions, aztables.TransactionAction{
			ActionType: aztables.TransactionTypeInsertReplace,
			Entity:     entity,
		})
	}
	_, err := orders.SubmitTransaction(ctx, actions, nil)
	return err
}

// listOrders shows the orders of more than one piece.
func listOrders(ctx context.Context, orders *aztables.Client) error {
	pager := orders.NewListEntitiesPager(&aztables.ListEntitiesOptions{
		Filter: to.Ptr("PartitionKey eq 'ada' and Pieces gt 1"),
		Select: to.Ptr("RowKey,Item"),
	})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, raw := range page.Entities {
			var e aztables.EDMEntity
			if err := json.Unmarshal(raw, &e); err != nil {
				return err
			}
			fmt.Println(e.RowKey, e.Properties["Item"])
		}
	}
	return nil
}

// updateOrder changes an entity only if it is unchanged since it was read: its ETag says so. The second attempt uses an
// ETag that is out of date, and is refused.
func updateOrder(ctx context.Context, orders *aztables.Client) error {
	read, err := orders.GetEntity(ctx, "ada", "001", nil)
	if err != nil {
		return err
	}
	paid := []byte(`{"PartitionKey": "ada", "RowKey": "001", "Paid": true}`)
	options := &aztables.UpdateEntityOptions{IfMatch: &read.ETag, UpdateMode: aztables.UpdateModeMerge}
	if _, err := orders.UpdateEntity(ctx, paid, options); err != nil {
		return err
	}
	fmt.Println("paid")
	_, err = orders.UpdateEntity(ctx, paid, options)
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return fmt.Errorf("an update with an old ETag: %w", err)
	}
	fmt.Println(response.StatusCode, response.ErrorCode)
	return nil
}
