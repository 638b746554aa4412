"""The models of cqlengine, the object mapper of the Python driver, against cqld: see ../README.md."""

import datetime
import sys
import time
import traceback
import uuid
import warnings

warnings.simplefilter("ignore")

from cassandra import ReadFailure
from cassandra.cqlengine import columns, connection, management, models, usertype
from cassandra.cqlengine.functions import MaxTimeUUID, MinTimeUUID, Token
from cassandra.cqlengine.query import BatchQuery, DoesNotExist, LWTException, MultipleObjectsReturned

import suite

KS = suite.KS


class Address(usertype.UserType):
    street = columns.Text()
    zip = columns.Integer()


class Base(models.Model):
    __abstract__ = True
    __keyspace__ = KS


class Person(Base):
    """Has indexes on regular columns of several types, collections and a user type."""

    id = columns.UUID(primary_key=True, default=uuid.uuid4)
    name = columns.Text(index=True, required=True)
    age = columns.Integer(index=True)
    born = columns.DateTime()
    day = columns.Date()
    score = columns.Float()
    balance = columns.Decimal()
    active = columns.Boolean(default=True)
    address = columns.UserDefinedType(Address)
    tags = columns.Set(columns.Text)
    marks = columns.List(columns.Integer)
    phones = columns.Map(columns.Text, columns.BigInt)


class Reading(Base):
    """Has indexes on a part of the partition key, on clustering columns and on a static column."""

    site = columns.Text(partition_key=True)
    month = columns.Integer(partition_key=True, index=True)
    at = columns.TimeUUID(primary_key=True, clustering_order="DESC")
    sensor = columns.Text(primary_key=True, index=True)
    owner = columns.Text(static=True, index=True)
    value = columns.Double(index=True)


class Hits(Base):
    page = columns.Text(primary_key=True)
    day = columns.Integer(primary_key=True)
    count = columns.Counter()


class Pet(Base):
    __table_name__ = "pets"
    id = columns.Integer(primary_key=True)
    kind = columns.Text(discriminator_column=True, index=True)
    name = columns.Text()


class Cat(Pet):
    __discriminator_value__ = "cat"
    lives = columns.Integer()


class Dog(Pet):
    __discriminator_value__ = "dog"
    tricks = columns.List(columns.Text)


class Note(Base):
    id = columns.Integer(primary_key=True)
    text = columns.Text()
    version = columns.Integer()
    __options__ = {"default_time_to_live": 3600, "comment": "it's a note", "gc_grace_seconds": 1000}


ALL = [Person, Reading, Hits, Pet, Cat, Dog, Note]


def same(got, want, what):
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


def refused(error, call, *args, **options):
    try:
        call(*args, **options)
    except error as e:
        return e
    raise AssertionError("%s was not raised" % error)


def sync():
    for _ in range(2):  # the second time finds all tables and indexes
        management.sync_type(KS, Address)
        for m in ALL:
            management.sync_table(m)
    indexes = connection.get_session().execute("SELECT index_name FROM system_schema.indexes WHERE keyspace_name = %s", [KS])
    same(sorted(r["index_name"] for r in indexes), ["person_age_idx", "person_name_idx", "pets_kind_idx", "reading_month_idx",
         "reading_owner_idx", "reading_sensor_idx", "reading_value_idx"], "indexes")


def crud():
    born = datetime.datetime(1999, 12, 31, 23, 59, 58, 123000)
    p = Person.create(name="Ada", age=36, born=born, day=born.date(), score=1.5, balance="12.25", address=Address(street="Main", zip=12345),
                      tags={"a", "b"}, marks=[3, 1, 2], phones={"home": 2 ** 40})
    q = Person.get(id=p.id)
    same((q.name, q.age, q.born, q.score, str(q.balance), q.active), ("Ada", 36, born, 1.5, "12.25", True), "values")
    same((q.address.street, q.address.zip, q.tags, q.marks, q.phones, q.day), ("Main", 12345, {"a", "b"}, [3, 1, 2], {"home": 2 ** 40}, p.day), "nested values")
    q.update(age=37, address=Address(street="Side", zip=1))
    q.tags.add("c")
    q.tags.remove("a")
    q.marks.append(9)
    q.phones["work"] = 7
    q.save()
    q = Person.get(id=p.id)
    same((q.age, q.address.street, q.tags, q.marks, q.phones), (37, "Side", {"b", "c"}, [3, 1, 2, 9], {"home": 2 ** 40, "work": 7}), "changed values")
    Person.objects(id=p.id).update(tags__add={"z"}, marks__prepend=[0], phones__update={"home": 1}, score=None)
    q = Person.get(id=p.id)
    same((q.tags, q.marks, q.phones, q.score), ({"b", "c", "z"}, [0, 3, 1, 2, 9], {"home": 1, "work": 7}, None), "after an update of collections")
    q.delete()
    refused(DoesNotExist, Person.get, id=p.id)


def indexes():
    for i in range(30):
        Person.create(name="name %d" % (i % 3), age=i % 10, tags={"t%d" % i})
    same(Person.objects(name="name 1").count(), 10, "by name")
    same({p.age for p in Person.objects(name="name 1")}, set(range(10)), "ages of a name")
    same(Person.objects(age=4).count(), 3, "by age")
    same(Person.objects(name="name 1", age=4).allow_filtering().count(), 1, "by name and age")
    same(Person.objects.filter(age__gte=5).allow_filtering().count(), 15, "by a range of ages")
    same(Person.objects.filter(tags__contains="t7").allow_filtering().count(), 1, "by an element")
    refused(Exception, Person.objects(active=True).count)
    one = Person.objects(name="name 2", age=5).allow_filtering().get()
    one.update(age=50)
    same([Person.objects(age=50).count(), Person.objects(name="name 2", age=5).allow_filtering().count()], [1, 0], "after a change")
    refused(MultipleObjectsReturned, Person.objects.get, name="name 0")


def keys():
    begin = datetime.datetime(2024, 1, 1)
    for i in range(12):
        Reading.create(site="s%d" % (i % 2), month=i % 3, at=uuid.uuid1(), sensor="x%d" % (i % 4), owner="o%d" % (i % 2), value=i / 2.0)
    same(Reading.objects(month=1).count(), 4, "by a part of the partition key")
    same(Reading.objects(sensor="x3").count(), 3, "by a clustering column")
    same(Reading.objects(value=2.5).count(), 1, "by a value")
    same(Reading.objects(owner="o1").count(), 6, "by a static column")
    same(Reading.objects(site="s1", month=1, value=3.5).count(), 1, "within a partition")
    rows = list(Reading.objects(site="s0", month=0))
    same([r.at for r in rows], sorted((r.at for r in rows), key=lambda u: u.time, reverse=True), "order")
    same(len(list(Reading.objects(site="s0", month=0).order_by("at").limit(1))), 1, "a limit")
    same(Reading.objects(site="s0", month=0, at__gte=MinTimeUUID(begin), at__lte=MaxTimeUUID(datetime.datetime(2100, 1, 1))).count(), 2, "a range of times")
    Reading.objects(site="s0", month=0).update(owner="other")
    same(Reading.objects(owner="other").count(), 2, "after a change of the static column")
    same(Reading.objects(site__in=["s0", "s1"], month=0).count(), 4, "IN")


def batches():
    with BatchQuery() as b:
        for i in range(5):
            Note.batch(b).create(id=i, text="n%d" % i, version=1)
    same(Note.objects.count(), 5, "rows of a batch")
    with BatchQuery(timestamp=datetime.timedelta(seconds=1)) as b:
        Note.objects(id=1).batch(b).update(text="later")
        Note.objects(id=2).batch(b).delete()
    same(sorted((n.id, n.text) for n in Note.objects.all()), [(0, "n0"), (1, "later"), (3, "n3"), (4, "n4")], "after a batch with a timestamp")
    same(len(list(Note.objects.filter(pk__token__gt=Token(-1)).limit(100))) <= 4, True, "by tokens")


def lightweight():
    Note.if_not_exists().create(id=100, text="first", version=1)
    e = refused(LWTException, Note.if_not_exists().create, id=100, text="second", version=2)
    same((e.existing["[applied]"], e.existing["text"]), (False, "first"), "existing")
    Note.objects(id=100).iff(version=1).update(text="second", version=2)
    e = refused(LWTException, Note.objects(id=100).iff(version=1).update, text="third")
    same(e.existing["version"], 2, "existing version")
    n = Note.get(id=100)
    n.iff(version__ne=2)
    n.text = "never"
    refused(LWTException, n.update)
    Note.objects(id=100).if_exists().update(text="fourth")
    refused(LWTException, Note.objects(id=101).if_exists().delete)
    with BatchQuery() as b:
        Note.objects(id=100).batch(b).iff(version=2).update(text="fifth")
    same(Note.get(id=100).text, "fifth", "conditional batch")


def counters():
    h = Hits.create(page="/", day=1)
    for i in range(1, 4):
        h.count += i
        h.save()
    Hits.objects(page="/", day=1).update(count=4)
    same(Hits.get(page="/", day=1).count, 10, "counter")


def expiry():
    Note.ttl(1).create(id=200, text="short")
    Note.create(id=201, text="long")
    until = time.time() + 10
    while Note.objects(id=200).count() and time.time() < until:
        time.sleep(0.1)
    same((Note.objects(id=200).count(), Note.objects(id=201).count()), (0, 1), "after the TTL")
    row = connection.get_session().execute("SELECT ttl(text) AS t FROM %s.note WHERE id = 201" % KS).one()
    same(3500 < row["t"] <= 3600, True, "the table's TTL")


def polymorphism():
    Cat.create(id=1, name="Tom", lives=9)
    Dog.create(id=2, name="Rex", tricks=["sit", "roll"])
    same([type(Pet.get(id=i)).__name__ for i in (1, 2)], ["Cat", "Dog"], "types")
    same([(c.name, c.lives) for c in Cat.objects.all()], [("Tom", 9)], "cats by the index of the discriminator")
    same([d.tricks for d in Dog.objects.all()], [["sit", "roll"]], "dogs")


def alter():
    class Later(Base):
        __table_name__ = "note"
        id = columns.Integer(primary_key=True)
        text = columns.Text(index=True)
        version = columns.Integer()
        extra = columns.Map(columns.Text, columns.Integer)
        __options__ = {"gc_grace_seconds": 2000, "default_time_to_live": 0}

    management.sync_table(Later)
    Later.create(id=300, text="t300", extra={"a": 1})
    until = time.time() + 10
    while True:  # reads fail until the index is built
        try:
            found = [n.extra for n in Later.objects(text="t300")]
            break
        except ReadFailure:
            if time.time() > until:
                raise
            time.sleep(0.1)
    same(found, [{"a": 1}], "the added column by the added index")
    session = connection.get_session()
    row = session.execute("SELECT gc_grace_seconds, default_time_to_live FROM system_schema.tables WHERE keyspace_name = %s AND table_name = 'note'", [KS]).one()
    same((row["gc_grace_seconds"], row["default_time_to_live"]), (2000, 0), "changed options")

    class LongAddress(usertype.UserType):
        __type_name__ = "address"
        street = columns.Text()
        zip = columns.Integer()
        country = columns.Text()

    management.sync_type(KS, LongAddress)
    fields = session.execute("SELECT field_names FROM system_schema.types WHERE keyspace_name = %s AND type_name = 'address'", [KS]).one()
    same(list(fields["field_names"]), ["street", "zip", "country"], "fields")


def drop():
    for m in ALL[:4] + ALL[6:]:
        management.drop_table(m)
    management.drop_table(Note)  # does nothing
    management.drop_keyspace(KS)


def main():
    cluster, session = suite.connect()
    session.execute("DROP KEYSPACE IF EXISTS " + KS)
    connection.register_connection("models", session=session, default=True)
    management.create_keyspace_simple(KS, suite.RF)
    models.DEFAULT_KEYSPACE = KS
    failed = 0
    for check in [sync, crud, indexes, keys, batches, lightweight, counters, expiry, polymorphism, alter, drop]:
        try:
            check()
            print("ok", check.__name__)
        except Exception as e:
            failed = 1
            traceback.print_exc()
            print("fail", check.__name__, " ".join(str(e).split()) or type(e).__name__)
    session.execute("DROP KEYSPACE IF EXISTS " + KS)
    cluster.shutdown()
    return failed


if __name__ == "__main__":
    sys.exit(main())
