"""An example of a program in Python that uses cqld with the Azure SDK for Tables.

Start a ring with "cqld local", then run it: python tables.py. CQLD_TABLES is the address of another node.
"""

import os

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError
from azure.data.tables import TableServiceClient, UpdateMode

# The account of the development ring; it is the same as in Azurite.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def main():
    endpoint = os.environ.get("CQLD_TABLES", "http://127.0.0.1:10002")
    service = TableServiceClient.from_connection_string(
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={endpoint}/{ACCOUNT};"
    )
    readings = service.create_table_if_not_exists("ExampleReadings")
    for hour in range(24):
        readings.upsert_entity(
            {"PartitionKey": "roof", "RowKey": f"{hour:02}", "Celsius": 10 + hour / 4}, mode=UpdateMode.REPLACE
        )

    warm = readings.query_entities("PartitionKey eq 'roof' and Celsius ge 15.0", results_per_page=2)
    for page in warm.by_page():
        print(", ".join(e["RowKey"] for e in page))

    entity = readings.get_entity("roof", "00")
    options = {"etag": entity.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
    readings.update_entity({**entity, "Celsius": 9.5}, **options)
    try:
        readings.update_entity({**entity, "Celsius": 9.0}, **options)
    except ResourceModifiedError:
        print("changed by another client")
    try:
        readings.create_entity({"PartitionKey": "roof", "RowKey": "00"})
    except ResourceExistsError:
        print("exists:", readings.get_entity("roof", "00")["Celsius"])


if __name__ == "__main__":
    main()
